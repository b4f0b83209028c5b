#pragma once

#include <cstdint>

namespace matrixfsdp {

/// A block of one pass's gradients from all ranks: rank r's is at staging + r * stride, for ranks above `own` one
/// stride lower, and `own`'s at `own_block`.
struct FoldBlock {
  const float* staging;
  std::int64_t stride;
  const float* own_block;
  int own;
  int world_size;
};

/// first: sums = g_0 + g_1 + ... + g_{W-1}; else sums = sums + g_0 + ... + g_{W-1}, each element from left to right in
/// float32. `own_block` may be `sums`.
void fold_block(const FoldBlock& block, bool first, float* sums, std::int64_t count);

}  // namespace matrixfsdp
