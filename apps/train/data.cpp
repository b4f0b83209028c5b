#include "apps/train/data.hpp"

#include <algorithm>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {
namespace {

/// Splits a sequence of length + 1 tokens into inputs and the tokens that follow them.
void append(MicroBatch& batch, const std::vector<std::int32_t>& sequence) {
  batch.tokens.insert(batch.tokens.end(), sequence.begin(), sequence.end() - 1);
  batch.targets.insert(batch.targets.end(), sequence.begin() + 1, sequence.end());
}

}  // namespace

Data::Data(Communicator& communicator, const Options& options) {
  std::string error;
  try {
    open(options);
    if (communicator.rank() == 0) {
      unigram_entropy_ = io::unigram_entropy(training_, options.shape.vocabulary);
      io::unigram_entropy(validation_, options.shape.vocabulary);
    }
  } catch (const InputError& bad) {
    error = bad.what();
  }
  agree_on_input(communicator, error);
}

void Data::open(const Options& options) {
  const std::int64_t length = options.sequence_length();
  training_data_ = std::make_unique<io::TokenData>(options.data);
  is_text_ = training_data_->is_text() || options.shape.vocabulary == 256;
  if (options.validation.empty()) {
    const io::TokenSplit split = io::hold_out(*training_data_, options.validation_fraction, length);
    training_ = split.training;
    validation_ = split.validation;
  } else {
    validation_data_ = std::make_unique<io::TokenData>(options.validation);
    training_ = training_data_->all();
    validation_ = validation_data_->all();
  }
  batches_ = std::make_unique<io::Batches>(training_, length, options.shape.vocabulary, options.seed);
  windows_ = std::make_unique<io::EvenWindows>(validation_, length, options.shape.vocabulary);
}

MicroBatch Data::training_batch(std::int64_t step, std::int64_t first, std::int64_t count) const {
  MicroBatch batch;
  for (std::int64_t i = first; i < first + count; ++i)
    append(batch, batches_->sequence(step, i));
  return batch;
}

MicroBatch Data::validation_batch(std::int64_t first, std::int64_t count, std::int64_t total) const {
  MicroBatch batch;
  for (std::int64_t i = first; i < first + count; ++i)
    append(batch, windows_->sequence(i, total));
  return batch;
}

std::vector<std::int32_t> Data::sample_context(std::int64_t count) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(count, validation_.size())));
  validation_.read(0, tokens);
  return tokens;
}

}  // namespace matrixfsdp::train
