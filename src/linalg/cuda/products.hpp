#pragma once

#include <cstdint>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "linalg/column_major.hpp"
#include "linalg/cuda/check.hpp"

namespace matrixfsdp::linalg::cuda {

inline cublasOperation_t operation(bool transpose) {
  return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// beta value, or zero where beta is 0 (NaN included).
template <class R>
KOKKOS_INLINE_FUNCTION R scaled(R beta, R value) {
  return beta == R{0} ? R{0} : beta * value;
}
/// Products that are rounded add nothing: their beta is 0.
KOKKOS_INLINE_FUNCTION bfloat16 scaled(float /*beta*/, bfloat16 /*value*/) {
  return {};
}

/// Column-major C <- beta C of m x n, or of its upper triangle: a product without terms, of which cuBLAS does not say
/// what it does.
template <bool triangle, class R, class Scalar>
void start_scale(int m, int n, Scalar beta, R* c, int ldc) {
  Kokkos::parallel_for(
      "matrixfsdp::linalg::scale", Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, n),
      KOKKOS_LAMBDA(const std::int64_t j) {
        R* const column = c + j * ldc;
        const std::int64_t end = triangle && j + 1 < m ? j + 1 : m;
        for (std::int64_t i = 0; i < end; ++i)
          column[i] = scaled(beta, column[i]);
      });
}

}  // namespace matrixfsdp::linalg::cuda
