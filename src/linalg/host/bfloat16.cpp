#include <matrixfsdp/linalg/bfloat16.hpp>

#include "linalg/batch.hpp"
#include "linalg/column_batch.hpp"

namespace matrixfsdp::linalg::detail {

template <class C>
void batched_gemm(Bfloat16Products& products, Op op_a, Op op_b, const MatrixBatch<const bfloat16>& a,
                  const MatrixBatch<const bfloat16>& b, const MatrixBatch<C>& c) {
  const int count = column_gemm_batch<bfloat16, C, float>("bfloat16 batched_gemm", op_a, op_b, a, b, c).count;
  for (int i = 0; i < count; ++i) {
    if constexpr (sizeof(C) == sizeof(float)) {
      products.gemm(op_a, op_b, a[i], b[i], false, c[i]);
    } else {
      products.gemm(op_a, op_b, a[i], b[i], c[i]);
    }
  }
}

template void batched_gemm<float>(Bfloat16Products&, Op, Op, const MatrixBatch<const bfloat16>&,
                                  const MatrixBatch<const bfloat16>&, const MatrixBatch<float>&);
template void batched_gemm<bfloat16>(Bfloat16Products&, Op, Op, const MatrixBatch<const bfloat16>&,
                                     const MatrixBatch<const bfloat16>&, const MatrixBatch<bfloat16>&);

}  // namespace matrixfsdp::linalg::detail
