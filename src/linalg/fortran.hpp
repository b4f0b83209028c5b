#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// What every call of BLAS and LAPACK needs first.
namespace matrixfsdp::linalg::detail {

inline int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw ContractError(fmt::format("matrix extent {}: BLAS takes at most {}", value, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

// Kernels of a device may still write what a host BLAS is about to read. Nothing to wait for where kernels run on the
// host.
inline void wait_for_kernels() {
  if constexpr (!std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace>) Kokkos::fence();
}

// BLAS is column-major: a row-major matrix with stride s is the transpose of a column-major one with leading dimension
// s. A smaller one than the columns would make BLAS print a line and return with C as it was; one row has no stride.
template <class T>
int leading(const char* product, const char* name, const MatrixView<T>& matrix) {
  if (matrix.rows > 1 && matrix.stride < matrix.cols) {
    throw ContractError(fmt::format("{}: {} is {}x{} with stride {}: expected at least {}", product, name, matrix.rows,
                                    matrix.cols, matrix.stride, matrix.cols));
  }
  return blas_int(std::max({matrix.stride, matrix.cols, std::int64_t{1}}));
}

}  // namespace matrixfsdp::linalg::detail
