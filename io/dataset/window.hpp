#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <matrixfsdp/dataset/token_data.hpp>

namespace matrixfsdp::io {

/// Throws as the constructors of Batches and EvenWindows say.
void check_windows(const TokenRange& range, std::int64_t sequence_length, std::int64_t vocabulary);

/// Positions of the range at which a sequence may start.
inline std::int64_t window_starts(const TokenRange& range, std::int64_t sequence_length) {
  return range.size() - sequence_length;
}

/// Throws InputError for a token outside the vocabulary; tokens[0] is at `offset` of the range.
void check_tokens(const TokenRange& range, std::int64_t offset, std::span<const std::int32_t> tokens,
                  std::int64_t vocabulary);

/// sequence_length + 1 tokens from `offset`, each checked against the vocabulary.
std::vector<std::int32_t> read_window(const TokenRange& range, std::int64_t offset, std::int64_t sequence_length,
                                      std::int64_t vocabulary);

}  // namespace matrixfsdp::io
