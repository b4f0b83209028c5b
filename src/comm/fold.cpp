#include "comm/fold.hpp"

namespace matrixfsdp {
namespace {

KOKKOS_INLINE_FUNCTION float value_of(float gradient) {
  return gradient;
}

KOKKOS_INLINE_FUNCTION float value_of(bfloat16 gradient) {
  return to_float(gradient);
}

template <class Gradient>
KOKKOS_INLINE_FUNCTION const Gradient* gradient_of(const FoldBlockOf<Gradient>& block, int rank) {
  if (rank == block.own) return block.own_block;
  return block.staging + (rank < block.own ? rank : rank - 1) * block.stride;
}

/// `width` neighbouring elements at once: on the host one or a few vector registers, so that every gradient is read
/// once and the sums stay in registers.
template <int width, class Gradient>
KOKKOS_INLINE_FUNCTION void fold_tile(const FoldBlockOf<Gradient>& block, bool first, float* sums, std::int64_t at) {
  float accumulator[width];
  if (first) {
    const Gradient* start = gradient_of(block, 0) + at;
    for (int i = 0; i < width; ++i)
      accumulator[i] = value_of(start[i]);
  } else {
    for (int i = 0; i < width; ++i)
      accumulator[i] = sums[at + i];
  }
  for (int rank = first ? 1 : 0; rank < block.world_size; ++rank) {
    const Gradient* gradient = gradient_of(block, rank) + at;
    for (int i = 0; i < width; ++i)
      accumulator[i] += value_of(gradient[i]);
  }
  for (int i = 0; i < width; ++i)
    sums[at + i] = accumulator[i];
}

template <class Gradient>
void fold_on_device(const ExecutionSpace& space, const FoldBlockOf<Gradient>& block, bool first, float* sums,
                    std::int64_t count) {
  Kokkos::parallel_for(
      "matrixfsdp::fold_block", Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(space, 0, count),
      KOKKOS_LAMBDA(std::int64_t at) { fold_tile<1>(block, first, sums, at); });
}

template <class Gradient>
void start(const ExecutionSpace& space, const FoldBlockOf<Gradient>& block, bool first, float* sums,
           std::int64_t count) {
  if constexpr (Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) {
    // Loops, not a kernel: this may be a progress thread, and kernels belong to the thread that computes.
    constexpr int width = 16;
    std::int64_t at = 0;
    for (; at + width <= count; at += width)
      fold_tile<width>(block, first, sums, at);
    for (; at < count; ++at)
      fold_tile<1>(block, first, sums, at);
  } else {
    fold_on_device(space, block, first, sums, count);
  }
}

template <class Gradient>
void fold(const FoldBlockOf<Gradient>& block, bool first, float* sums, std::int64_t count) {
  start(ExecutionSpace(), block, first, sums, count);
  if constexpr (!Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) Kokkos::fence();
}

}  // namespace

void start_fold(const ExecutionSpace& space, const FoldBlock& block, bool first, float* sums, std::int64_t count) {
  start(space, block, first, sums, count);
}

void start_fold(const ExecutionSpace& space, const FoldBlockOf<bfloat16>& block, bool first, float* sums,
                std::int64_t count) {
  start(space, block, first, sums, count);
}

void fold_block(const FoldBlock& block, bool first, float* sums, std::int64_t count) {
  fold(block, first, sums, count);
}

void fold_block(const FoldBlockOf<bfloat16>& block, bool first, float* sums, std::int64_t count) {
  fold(block, first, sums, count);
}

}  // namespace matrixfsdp
