#pragma once

#include <cstdint>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// A block of one pass's gradients from the ranks of a run: rank r's is at staging + d * stride, where r is the
/// (d + 1)-th after `own` in a circle, and `own`'s at `own_block`.
template <class Gradient>
struct FoldBlockOf {
  const Gradient* staging;
  std::int64_t stride;
  const Gradient* own_block;
  int own;
  int ranks;
};
using FoldBlock = FoldBlockOf<float>;

/// Row of staging of rank `from` of a run, where `own` folds.
inline std::int64_t staging_row(int from, int own, int ranks) {
  return (from - own - 1 + ranks) % ranks;
}

/// What a block is folded onto, and where that goes. A group that is not open (fold_state) is neither read nor written,
/// nor is the sum of complete ones where the block completes none.
struct FoldSums {
  const float* sum_before = nullptr;   ///< of complete groups
  const float* open_before = nullptr;  ///< of the group that is not complete
  float* sum = nullptr;                ///< all these may be one another, or the block's own gradients
  float* open = nullptr;
  std::int64_t summed = 0;  ///< micro-batches before those of the block
  std::int64_t group = 1;   ///< micro-batches that are summed first
};

/// Adds the gradients of a block in rank order to the group that is open, and every group that is complete to the sum,
/// each element from left to right in float32. Groups of one: sum = sum_before + g_0 + g_1 + ...; the first of all is
/// copied.
void fold_block(const FoldBlock& block, const FoldSums& sums, std::int64_t count);
/// Gradients are widened first, which is exact.
void fold_block(const FoldBlockOf<bfloat16>& block, const FoldSums& sums, std::int64_t count);

/// Starts the same on `space`, behind what has been started there before.
void start_fold(const ExecutionSpace& space, const FoldBlock& block, const FoldSums& sums, std::int64_t count);
void start_fold(const ExecutionSpace& space, const FoldBlockOf<bfloat16>& block, const FoldSums& sums,
                std::int64_t count);

}  // namespace matrixfsdp
