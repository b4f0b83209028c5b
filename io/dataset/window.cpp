#include "io/dataset/window.hpp"

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {

void check_windows(const TokenRange& range, std::int64_t sequence_length, std::int64_t vocabulary) {
  require(sequence_length >= 1, "sequences: expected a length of at least 1");
  require(vocabulary >= 1, "sequences: expected a vocabulary of at least 1");
  if (range.size() < sequence_length + 1) {
    throw InputError(
        fmt::format("data: {} tokens are too few for one sequence; expected at least {} (sequence length {} "
                    "and the token after it)",
                    range.size(), sequence_length + 1, sequence_length));
  }
}

void check_tokens(const TokenRange& range, std::int64_t offset, std::span<const std::int32_t> tokens,
                  std::int64_t vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocabulary) continue;
    const std::int64_t position = range.interval().begin + offset + static_cast<std::int64_t>(i);
    throw InputError(fmt::format("{}: has the id {}; expected less than the model's vocabulary of {}",
                                 range.data().locate(position), static_cast<std::uint32_t>(tokens[i]), vocabulary));
  }
}

std::vector<std::int32_t> read_window(const TokenRange& range, std::int64_t offset, std::int64_t sequence_length,
                                      std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence_length + 1));
  range.read(offset, tokens);
  check_tokens(range, offset, tokens, vocabulary);
  return tokens;
}

}  // namespace matrixfsdp::io
