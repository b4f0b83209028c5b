#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/dataset/token_data.hpp>

namespace matrixfsdp::io {

/// Training sequences: windows of sequence_length + 1 tokens whose first token is uniform over all positions of the
/// range that have room, with replacement. Sequence `index` of the global batch of `step` is a pure function of (seed,
/// step, index): it does not depend on W, and a run continues where it stopped when it knows seed and step.
class Batches {
 public:
  /// `vocabulary`: of the model. Throws InputError when the range is too short for one sequence, ContractError for a
  /// sequence_length or vocabulary below 1.
  Batches(TokenRange range, std::int64_t sequence_length, std::int64_t vocabulary, std::uint64_t seed);

  /// First token of a sequence, within the range: CounterRandom(seed, stream of "batch") at counter
  /// step * 2^32 + index. Throws ContractError for a negative step or index, or one from 2^32 on.
  [[nodiscard]] std::int64_t offset(std::int64_t step, std::int64_t index) const;

  /// sequence_length + 1 tokens: inputs are all but the last, targets all but the first. Throws InputError for a token
  /// outside the vocabulary (file, position, token, vocabulary), ContractError as offset.
  [[nodiscard]] std::vector<std::int32_t> sequence(std::int64_t step, std::int64_t index) const;

 private:
  TokenRange range_;
  std::int64_t sequence_length_;
  std::int64_t vocabulary_;
  CounterRandom random_;
};

/// Validation sequences: nothing is random, so that losses of different steps and runs compare.
class EvenWindows {
 public:
  /// As Batches, with its errors.
  EvenWindows(TokenRange range, std::int64_t sequence_length, std::int64_t vocabulary);

  /// First token of sequence k of n: floor(k * starts / n), with starts = the positions that a sequence may start at:
  /// windows are evenly spaced, and overlap only where the range is shorter than n sequences. Throws ContractError
  /// unless 0 <= k < n < 2^31.
  [[nodiscard]] std::int64_t offset(std::int64_t k, std::int64_t n) const;

  /// As Batches::sequence; ContractError as offset.
  [[nodiscard]] std::vector<std::int32_t> sequence(std::int64_t k, std::int64_t n) const;

 private:
  TokenRange range_;
  std::int64_t sequence_length_;
  std::int64_t vocabulary_;
};

}  // namespace matrixfsdp::io
