#include <algorithm>
#include <cmath>

#include <matrixfsdp/linalg/eigen.hpp>

#include "linalg/backend.hpp"
#include "linalg/column_major.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp::linalg {
namespace {

constexpr std::int64_t qr_block = 64;  // columns that LAPACK's QR takes at a time, at most

template <class T>
constexpr bool is_float = std::is_same_v<T, float>;

template <class T>
void check_scratch(const char* self, const DecompositionScratch& needed, const DecompositionWorkspace<T>& workspace) {
  const auto reals = static_cast<std::int64_t>(workspace.reals.extent(0));
  const auto integers = static_cast<std::int64_t>(workspace.integers.extent(0));
  if (reals >= needed.reals && integers >= needed.integers) return;
  throw ContractError(fmt::format("{}: workspace of {} reals and {} integers, expected {} and {}", self, reals,
                                  integers, needed.reals, needed.integers));
}

/// The triangle that eigenvectors() reads. LAPACK may loop or stop the process over a NaN.
template <class T>
bool lower_triangle_is_finite(const MatrixView<T>& a) {
  return matrixfsdp::detail::sum_range(
             "matrixfsdp::linalg::finite", a.rows, KOKKOS_LAMBDA(const std::int64_t i, std::int64_t& count) {
               for (std::int64_t j = 0; j <= i; ++j)
                 count += a(i, j) - a(i, j) == T{0} ? 0 : 1;
             }) == 0;
}

}  // namespace

std::string EigenResult::message() const {
  switch (status) {
    case Status::ok:
      return "converged";
    case Status::non_finite:
      return fmt::format("eigenvectors of a {0}x{0} matrix of float{1}: it has a NaN or an infinity, expected numbers",
                         extent, bits);
    case Status::not_converged:
      break;
  }
  return fmt::format(
      "eigenvectors of a {0}x{0} matrix of float{1}: {2} did not converge (info {3}), "
      "expected info 0",
      extent, bits, detail::eigensolver_name(bits), info);
}

DecompositionScratch DecompositionScratch::for_eigenvectors(std::int64_t extent) {
  if (extent <= 1) return {1, 1};
  return {1 + 6 * extent + 2 * extent * extent, 3 + 5 * extent};
}

DecompositionScratch DecompositionScratch::for_orthonormal_rows(std::int64_t rows) {
  return {rows + qr_block * std::max<std::int64_t>(1, rows), 0};
}

void DecompositionScratch::include(const DecompositionScratch& other) {
  reals = std::max(reals, other.reals);
  integers = std::max(integers, other.integers);
}

template <class T>
DecompositionWorkspace<T>::DecompositionWorkspace() = default;

template <class T>
DecompositionWorkspace<T>::DecompositionWorkspace(const DecompositionScratch& scratch)
    : reals(make_tensor<T>("matrixfsdp::linalg::reals", scratch.reals)),
      integers(make_tensor<int>("matrixfsdp::linalg::integers", scratch.integers)) {}

template <class T>
EigenResult eigenvectors(MatrixView<T> a, const TensorView<T>& values, const DecompositionWorkspace<T>& workspace) {
  if (a.rows != a.cols || static_cast<std::int64_t>(values.extent(0)) != a.rows) {
    throw ContractError(fmt::format("eigenvectors: matrix {}x{} and {} values, expected a square and as many values",
                                    a.rows, a.cols, values.extent(0)));
  }
  check_scratch("eigenvectors", DecompositionScratch::for_eigenvectors(a.rows), workspace);
  EigenResult result{EigenResult::Status::ok, a.rows, is_float<T> ? 32 : 64, 0};
  if (a.rows == 0) return result;
  if (!lower_triangle_is_finite(a)) {
    result.status = EigenResult::Status::non_finite;
    return result;
  }
  const int n = detail::blas_int(a.rows);
  const int lda = detail::leading("eigenvectors", "A", a);
  // Column-major sees our lower triangle as its upper one, and returns eigenvectors as columns: our rows.
  result.info = detail::symmetric_eigenvectors(n, a.data, lda, values.data(), workspace);
  if (result.info > 0) result.status = EigenResult::Status::not_converged;
  return result;
}

template <class T>
void orthonormal_rows(MatrixView<T> a, const DecompositionWorkspace<T>& workspace) {
  if (a.rows > a.cols) {
    throw ContractError(
        fmt::format("orthonormal_rows: matrix {}x{}, expected no more rows than columns", a.rows, a.cols));
  }
  check_scratch("orthonormal_rows", DecompositionScratch::for_orthonormal_rows(a.rows), workspace);
  if (a.rows == 0) return;
  // Column-major sees A^T.
  const int m = detail::blas_int(a.cols);
  const int n = detail::blas_int(a.rows);
  const int lda = detail::leading("orthonormal_rows", "A", a);
  detail::orthonormal_columns(m, n, a.data, lda, workspace);
}

template class DecompositionWorkspace<float>;
template class DecompositionWorkspace<double>;
template EigenResult eigenvectors<float>(MatrixView<float>, const TensorView<float>&,
                                         const DecompositionWorkspace<float>&);
template EigenResult eigenvectors<double>(MatrixView<double>, const TensorView<double>&,
                                          const DecompositionWorkspace<double>&);
template void orthonormal_rows<float>(MatrixView<float>, const DecompositionWorkspace<float>&);
template void orthonormal_rows<double>(MatrixView<double>, const DecompositionWorkspace<double>&);

}  // namespace matrixfsdp::linalg
