#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/dataset/batches.hpp>
#include <matrixfsdp/dataset/token_data.hpp>

#include "apps/train/options.hpp"
#include "apps/train/replica.hpp"

namespace matrixfsdp::train {

/// Training and validation tokens of a run.
class Data {
 public:
  /// Opens the files of Options::data and Options::validation; rank 0 reads them once, so that a token that the model's
  /// vocabulary does not have ends the run before it starts. Throws InputError, agreed by all ranks.
  Data(Communicator& communicator, const Options& options);

  /// Sequences [first, first + count) of the global batch of `step`: a function of seed, step and index only.
  [[nodiscard]] MicroBatch training_batch(std::int64_t step, std::int64_t first, std::int64_t count) const;
  /// Sequences [first, first + count) of `total` evenly spaced ones.
  [[nodiscard]] MicroBatch validation_batch(std::int64_t first, std::int64_t count, std::int64_t total) const;

  /// Tokens that start a sample where no prompt is given: the first ones of the validation data.
  [[nodiscard]] std::vector<std::int32_t> sample_context(std::int64_t count) const;
  /// Entropy of the training data's token frequencies, nats per token: what a model reaches that ignores context. Known
  /// on rank 0; 0 elsewhere.
  [[nodiscard]] double unigram_entropy() const { return unigram_entropy_; }
  [[nodiscard]] std::int64_t training_tokens() const { return training_.size(); }
  [[nodiscard]] std::int64_t validation_tokens() const { return validation_.size(); }
  /// True when tokens are bytes of text, so that a sample can be printed: those of text files, and of shards for a
  /// model with a vocabulary of 256.
  [[nodiscard]] bool is_text() const { return is_text_; }

 private:
  void open(const Options& options);

  std::unique_ptr<io::TokenData> training_data_;
  std::unique_ptr<io::TokenData> validation_data_;  // null: held out from the training data
  io::TokenRange training_;
  io::TokenRange validation_;
  std::unique_ptr<io::Batches> batches_;
  std::unique_ptr<io::EvenWindows> windows_;
  double unigram_entropy_ = 0;
  bool is_text_ = true;
};

}  // namespace matrixfsdp::train
