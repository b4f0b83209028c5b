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
  const int steps = rank - block.own - 1;
  return block.staging + (steps < 0 ? steps + block.ranks : steps) * block.stride;
}

/// `width` neighbouring elements at once: on the host one or a few vector registers, so that every gradient is read
/// once and the sums stay in registers.
template <int width, class Gradient>
KOKKOS_INLINE_FUNCTION void fold_tile(const FoldBlockOf<Gradient>& block, const FoldSums& sums, std::int64_t at) {
  float sum[width] = {};
  float open[width] = {};
  std::int64_t in_group = sums.summed % sums.group;
  bool any = sums.summed >= sums.group && in_group + block.ranks >= sums.group;
  for (int i = 0; any && i < width; ++i)
    sum[i] = sums.sum_before[at + i];
  for (int i = 0; in_group > 0 && i < width; ++i)
    open[i] = sums.open_before[at + i];
  for (int rank = 0; rank < block.ranks; ++rank) {
    const Gradient* gradient = gradient_of(block, rank) + at;
    // The first of a sum is copied: 0 + (-0) would be +0.
    for (int i = 0; i < width; ++i)
      open[i] = in_group == 0 ? value_of(gradient[i]) : open[i] + value_of(gradient[i]);
    if (++in_group < sums.group) continue;
    for (int i = 0; i < width; ++i)
      sum[i] = any ? sum[i] + open[i] : open[i];
    any = true;
    in_group = 0;
  }
  for (int i = 0; any && i < width; ++i)
    sums.sum[at + i] = sum[i];
  for (int i = 0; in_group > 0 && i < width; ++i)
    sums.open[at + i] = open[i];
}

template <class Gradient>
void fold_on_device(const ExecutionSpace& space, const FoldBlockOf<Gradient>& block, const FoldSums& sums,
                    std::int64_t count) {
  Kokkos::parallel_for(
      "matrixfsdp::fold_block", Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(space, 0, count),
      KOKKOS_LAMBDA(std::int64_t at) { fold_tile<1>(block, sums, at); });
}

template <class Gradient>
void start(const ExecutionSpace& space, const FoldBlockOf<Gradient>& block, const FoldSums& sums, std::int64_t count) {
  if constexpr (Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) {
    // Loops, not a kernel: this may be a progress thread, and kernels belong to the thread that computes.
    constexpr int width = 16;
    std::int64_t at = 0;
    for (; at + width <= count; at += width)
      fold_tile<width>(block, sums, at);
    for (; at < count; ++at)
      fold_tile<1>(block, sums, at);
  } else {
    fold_on_device(space, block, sums, count);
  }
}

template <class Gradient>
void fold(const FoldBlockOf<Gradient>& block, const FoldSums& sums, std::int64_t count) {
  start(ExecutionSpace(), block, sums, count);
  if constexpr (!Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible) Kokkos::fence();
}

}  // namespace

void start_fold(const ExecutionSpace& space, const FoldBlock& block, const FoldSums& sums, std::int64_t count) {
  start(space, block, sums, count);
}

void start_fold(const ExecutionSpace& space, const FoldBlockOf<bfloat16>& block, const FoldSums& sums,
                std::int64_t count) {
  start(space, block, sums, count);
}

void fold_block(const FoldBlock& block, const FoldSums& sums, std::int64_t count) {
  fold(block, sums, count);
}

void fold_block(const FoldBlockOf<bfloat16>& block, const FoldSums& sums, std::int64_t count) {
  fold(block, sums, count);
}

}  // namespace matrixfsdp
