#pragma once

#include <cstdint>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// A block of one pass's gradients from all ranks: rank r's is at staging + r * stride, for ranks above `own` one
/// stride lower, and `own`'s at `own_block`.
template <class Gradient>
struct FoldBlockOf {
  const Gradient* staging;
  std::int64_t stride;
  const Gradient* own_block;
  int own;
  int world_size;
};
using FoldBlock = FoldBlockOf<float>;

/// first: sums = g_0 + g_1 + ... + g_{W-1}; else sums = sums + g_0 + ... + g_{W-1}, each element from left to right in
/// float32. `own_block` may be `sums`.
void fold_block(const FoldBlock& block, bool first, float* sums, std::int64_t count);
/// Gradients are widened first, which is exact.
void fold_block(const FoldBlockOf<bfloat16>& block, bool first, float* sums, std::int64_t count);

/// Starts the same on `space`, behind what has been started there before.
void start_fold(const ExecutionSpace& space, const FoldBlock& block, bool first, float* sums, std::int64_t count);
void start_fold(const ExecutionSpace& space, const FoldBlockOf<bfloat16>& block, bool first, float* sums,
                std::int64_t count);

}  // namespace matrixfsdp
