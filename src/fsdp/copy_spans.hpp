#pragma once

#include <cstdint>

#include <matrixfsdp/plan/plan.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// Elements that stand at one place in the buffer that travels and at another in the one that is computed with.
struct CopySpan {
  std::int64_t travels = 0;
  std::int64_t computes = 0;
  std::int64_t count = 0;
};

/// Of row shards: one for each segment, or piece of a long one.
Tensor<CopySpan> copy_spans(const MatrixShard& shard);

/// From the buffer that travels to the one that is computed with, and back. They do not overlap. Complete on return.
void copy_out(const Tensor<CopySpan>& spans, const TensorView<float>& travels, const TensorView<float>& computes);
void copy_in(const Tensor<CopySpan>& spans, const TensorView<float>& computes, const TensorView<float>& travels);

}  // namespace matrixfsdp
