#pragma once

#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "linalg/batch.hpp"
#include "linalg/column_major.hpp"

namespace matrixfsdp::linalg::detail {

/// C_i <- op(A_i) op(B_i), checked as batched_gemm says. Its count is 0 where there is nothing to compute.
template <class E, class R, class Scalar>
ColumnGemmBatch<E, R, Scalar> column_gemm_batch(std::string_view self, Op op_a, Op op_b, const MatrixBatch<const E>& a,
                                                const MatrixBatch<const E>& b, const MatrixBatch<R>& c) {
  if (a.count != c.count || b.count != c.count) {
    throw ContractError(
        fmt::format("{}: {} matrices A, {} B, {} C: expected equal numbers", self, a.count, b.count, c.count));
  }
  ColumnGemmBatch<E, R, Scalar> products;
  if (c.count == 0) return products;
  products.first = column_gemm<E, R, Scalar>(self, op_a, op_b, Scalar{1}, a[0], b[0], Scalar{0}, c[0]);
  if (products.first.empty()) return products;
  if (products.first.k == 0)
    throw ContractError(fmt::format("{}: products without terms, expected at least one", self));
  // The operands change sides, as they do in one product.
  products.stride_a = b.rows * b.cols;
  products.stride_b = a.rows * a.cols;
  products.stride_c = c.rows * c.cols;
  products.count = blas_int(c.count);
  return products;
}

}  // namespace matrixfsdp::linalg::detail
