#include "linalg/batch.hpp"

#include <matrixfsdp/core/bfloat16.hpp>

#include "linalg/backend.hpp"
#include "linalg/column_batch.hpp"

namespace matrixfsdp::linalg::detail {
namespace {

template <class T>
struct OwnEntry {
  MatrixView<T> matrix;

  KOKKOS_INLINE_FUNCTION T operator()(std::int64_t row, std::int64_t col) const { return matrix(row, col); }
};

template <class T>
struct OwnEntries {
  MatrixBatch<T> batch;

  KOKKOS_INLINE_FUNCTION OwnEntry<T> operator[](std::int64_t matrix) const { return {batch[matrix]}; }
};

}  // namespace

template <class T>
void batched_gemm(Op op_a, Op op_b, MatrixBatch<const std::type_identity_t<T>> a,
                  MatrixBatch<const std::type_identity_t<T>> b, MatrixBatch<T> c) {
  const auto products = column_gemm_batch<T, T, T>("batched_gemm", op_a, op_b, a, b, c);
  if (products.count == 0) return;
  start(products);
  finish();
}

template <class T>
void mirror(const MatrixBatch<T>& c) {
  fill_symmetric_batch("matrixfsdp::linalg::mirror", c, OwnEntries<T>{c});
}

template void batched_gemm<float>(Op, Op, MatrixBatch<const float>, MatrixBatch<const float>, MatrixBatch<float>);
template void batched_gemm<double>(Op, Op, MatrixBatch<const double>, MatrixBatch<const double>, MatrixBatch<double>);
template void mirror<float>(const MatrixBatch<float>&);
template void mirror<double>(const MatrixBatch<double>&);
template void mirror<bfloat16>(const MatrixBatch<bfloat16>&);

}  // namespace matrixfsdp::linalg::detail
