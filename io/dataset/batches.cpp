#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/batches.hpp>

#include "io/dataset/window.hpp"

namespace matrixfsdp::io {

Batches::Batches(TokenRange range, std::int64_t sequence_length, std::int64_t vocabulary, std::uint64_t seed)
    : range_(range), sequence_length_(sequence_length), vocabulary_(vocabulary), random_(seed, stream_of("batch")) {
  check_windows(range_, sequence_length_, vocabulary_);
}

std::int64_t Batches::offset(std::int64_t step, std::int64_t index) const {
  constexpr std::int64_t limit = std::int64_t{1} << 32;
  if (step < 0 || step >= limit || index < 0 || index >= limit) {
    throw ContractError(fmt::format("sequence {} of step {}: expected both in [0, 2^32)", index, step));
  }
  const auto counter = (static_cast<std::uint64_t>(step) << 32) | static_cast<std::uint64_t>(index);
  return static_cast<std::int64_t>(
      random_.below(counter, static_cast<std::uint64_t>(window_starts(range_, sequence_length_))));
}

std::vector<std::int32_t> Batches::sequence(std::int64_t step, std::int64_t index) const {
  return read_window(range_, offset(step, index), sequence_length_, vocabulary_);
}

EvenWindows::EvenWindows(TokenRange range, std::int64_t sequence_length, std::int64_t vocabulary)
    : range_(range), sequence_length_(sequence_length), vocabulary_(vocabulary) {
  check_windows(range_, sequence_length_, vocabulary_);
}

std::int64_t EvenWindows::offset(std::int64_t k, std::int64_t n) const {
  if (k < 0 || k >= n || n >= std::int64_t{1} << 31) {
    throw ContractError(fmt::format("sequence {} of {}: expected 0 <= sequence < number < 2^31", k, n));
  }
  // floor(k * starts / n) without a product that leaves 64 bits.
  const std::int64_t starts = window_starts(range_, sequence_length_);
  return k * (starts / n) + k * (starts % n) / n;
}

std::vector<std::int32_t> EvenWindows::sequence(std::int64_t k, std::int64_t n) const {
  return read_window(range_, offset(k, n), sequence_length_, vocabulary_);
}

}  // namespace matrixfsdp::io
