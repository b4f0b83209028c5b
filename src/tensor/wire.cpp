#include <algorithm>

#include <matrixfsdp/tensor/wire.hpp>

namespace matrixfsdp {
namespace {

using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;

void widen_range(const ExecutionSpace& space, float* to, const bfloat16* words, std::int64_t begin, std::int64_t end) {
  Kokkos::parallel_for(
      "matrixfsdp::widen", Range(space, begin, end),
      KOKKOS_LAMBDA(const std::int64_t i) { to[i] = to_float(words[i]); });
}

void round_range(const ExecutionSpace& space, const float* values, bfloat16* words, std::int64_t begin,
                 std::int64_t end) {
  Kokkos::parallel_for(
      "matrixfsdp::round", Range(space, begin, end),
      KOKKOS_LAMBDA(const std::int64_t i) { words[i] = to_bfloat16(values[i]); });
}

}  // namespace

void start_round_to_words(const ExecutionSpace& space, const TensorView<const float>& values,
                          const TensorView<bfloat16>& words) {
  round_range(space, values.data(), words.data(), 0, static_cast<std::int64_t>(words.size()));
}

void round_to_words(const TensorView<const float>& values, const TensorView<bfloat16>& words) {
  start_round_to_words(ExecutionSpace(), values, words);
  Kokkos::fence();
}

// Of n elements, i stands in bytes 4 i to 4 i + 3, and its word in bytes 2 n + 2 i and + 1. Elements [begin, end) can
// be written in any order, and over no word that is still to be read, when 4 end <= 2 n + 2 begin; the last one alone.
void start_widen(const ExecutionSpace& space, const TensorView<float>& buffer) {
  const auto size = static_cast<std::int64_t>(buffer.size());
  const bfloat16* words = upper_words(buffer).data();
  if constexpr (Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) {
    // A loop, not kernels: this may be a progress thread, and kernels belong to the thread that computes.
    for (std::int64_t i = 0; i < size; ++i)
      buffer.data()[i] = to_float(words[i]);
    return;
  }
  for (std::int64_t begin = 0; begin < size;) {
    const std::int64_t end = std::max((size + begin) / 2, begin + 1);
    widen_range(space, buffer.data(), words, begin, end);
    begin = end;
  }
}

void widen(const TensorView<float>& buffer) {
  start_widen(ExecutionSpace(), buffer);
  if constexpr (!Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) Kokkos::fence();
}

// The word of i goes to bytes 2 i and + 1: words [begin, end) lie over no element from begin on when end <= 2 begin;
// the first one alone.
void start_round_in_place(const ExecutionSpace& space, const TensorView<float>& buffer) {
  const auto size = static_cast<std::int64_t>(buffer.size());
  for (std::int64_t begin = 0; begin < size;) {
    const std::int64_t end = std::min(std::max(2 * begin, begin + 1), size);
    round_range(space, buffer.data(), lower_words(buffer).data(), begin, end);
    begin = end;
  }
}

void round_in_place(const TensorView<float>& buffer) {
  start_round_in_place(ExecutionSpace(), buffer);
  Kokkos::fence();
}

void round_through_words(const TensorView<const float>& values, const TensorView<float>& rounded) {
  const float* from = values.data();
  float* to = rounded.data();
  Kokkos::parallel_for(
      "matrixfsdp::round_through_words", Range(0, static_cast<std::int64_t>(rounded.size())),
      KOKKOS_LAMBDA(const std::int64_t i) { to[i] = to_float(to_bfloat16(from[i])); });
  Kokkos::fence();
}

}  // namespace matrixfsdp
