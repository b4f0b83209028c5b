#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// BLAS and LAPACK are column-major: a row-major matrix with stride s is the transpose of a column-major one with
/// leading dimension s. Here our calls are checked and become theirs, for every implementation alike.
namespace matrixfsdp::linalg::detail {

inline int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw ContractError(fmt::format("matrix extent {}: BLAS takes at most {}", value, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

// A smaller leading dimension than the columns would make BLAS print a line and return with C as it was; one row has no
// stride.
template <class T>
int leading(std::string_view product, const char* name, const MatrixView<T>& matrix) {
  if (matrix.rows > 1 && matrix.stride < matrix.cols) {
    throw ContractError(fmt::format("{}: {} is {}x{} with stride {}: expected at least {}", product, name, matrix.rows,
                                    matrix.cols, matrix.stride, matrix.cols));
  }
  return blas_int(std::max({matrix.stride, matrix.cols, std::int64_t{1}}));
}

/// Column-major C <- alpha op(A) op(B) + beta C, with op(A) m x k and op(B) k x n, of elements E with a result of R.
template <class E, class R = E, class Scalar = R>
struct ColumnGemm {
  bool transpose_a = false;
  bool transpose_b = false;
  int m = 0;
  int n = 0;
  int k = 0;
  Scalar alpha{};
  const E* a = nullptr;
  int lda = 1;
  const E* b = nullptr;
  int ldb = 1;
  Scalar beta{};
  R* c = nullptr;
  int ldc = 1;

  [[nodiscard]] bool empty() const { return m == 0 || n == 0; }
};

/// `count` products of one shape: the matrices of the next one are a stride further.
template <class E, class R = E, class Scalar = R>
struct ColumnGemmBatch {
  ColumnGemm<E, R, Scalar> first;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
  int count = 0;
};

/// Column-major C <- alpha op(A) op(A)^T + beta C, upper triangle only, with op(A) n x k.
template <class T>
struct ColumnSyrk {
  bool transpose = false;
  int n = 0;
  int k = 0;
  T alpha{};
  const T* a = nullptr;
  int lda = 1;
  T beta{};
  T* c = nullptr;
  int ldc = 1;
};

/// C <- alpha op(A) op(B) + beta C of row-major matrices as a column-major product: C^T = op(B)^T op(A)^T. Throws
/// ContractError as blas.hpp says; nothing is asked of a product without a result, which is empty().
template <class E, class R = E, class Scalar = R>
ColumnGemm<E, R, Scalar> column_gemm(std::string_view self, Op op_a, Op op_b, Scalar alpha, MatrixView<const E> a,
                                     MatrixView<const E> b, Scalar beta, MatrixView<R> c) {
  const std::int64_t a_rows = op_a == Op::none ? a.rows : a.cols;
  const std::int64_t inner = op_a == Op::none ? a.cols : a.rows;
  const std::int64_t b_rows = op_b == Op::none ? b.rows : b.cols;
  const std::int64_t b_cols = op_b == Op::none ? b.cols : b.rows;
  if (a_rows != c.rows || b_cols != c.cols || inner != b_rows) {
    throw ContractError(fmt::format("{}: op(A) {}x{} times op(B) {}x{} does not fit C {}x{}", self, a_rows, inner,
                                    b_rows, b_cols, c.rows, c.cols));
  }
  ColumnGemm<E, R, Scalar> result;
  if (c.rows == 0 || c.cols == 0) return result;
  result.transpose_a = op_b == Op::transpose;
  result.transpose_b = op_a == Op::transpose;
  result.m = blas_int(c.cols);
  result.n = blas_int(c.rows);
  result.k = blas_int(inner);
  result.alpha = alpha;
  result.a = b.data;
  result.b = a.data;
  result.ldb = leading(self, "A", a);
  result.lda = leading(self, "B", b);
  result.beta = beta;
  result.c = c.data;
  result.ldc = leading(self, "C", c);
  return result;
}

}  // namespace matrixfsdp::linalg::detail
