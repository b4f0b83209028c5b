#include "optim/eigenvectors.hpp"

#include <cmath>

#include <matrixfsdp/linalg/blas.hpp>

namespace matrixfsdp::detail {
namespace {

/// On the host: once in a refresh, beside work of the order of the extent cubed.
template <class T>
void copy_shifted(const MatrixView<const float>& from, double factor, double shift, const MatrixView<T>& to) {
  for (std::int64_t i = 0; i < from.rows; ++i) {
    for (std::int64_t j = 0; j < from.cols; ++j)
      to(i, j) = static_cast<T>(factor) * static_cast<T>(from(i, j)) + (i == j ? static_cast<T>(shift) : T{0});
  }
}

linalg::EigenResult in_double(const MatrixView<const float>& matrix, double factor, double shift,
                              const MatrixView<float>& square, const TensorView<float>& values,
                              const Decompositions& decompositions) {
  const std::int64_t extent = matrix.rows;
  const Tensor<double> memory = make_tensor<double>("matrixfsdp::optim::retry", extent * extent + extent);
  const MatrixView<double> wide(memory.data(), extent, extent);
  const TensorView<double> wide_values = slice(memory, extent * extent, extent);
  copy_shifted<double>(matrix, factor, shift, wide);
  const linalg::DecompositionWorkspace<double> workspace(linalg::DecompositionScratch::for_eigenvectors(extent));
  const linalg::EigenResult result = decompositions.twice(wide, wide_values, workspace);
  if (!result.ok()) return result;
  for (std::int64_t i = 0; i < extent; ++i) {
    values.data()[i] = static_cast<float>(wide_values.data()[i]);
    for (std::int64_t j = 0; j < extent; ++j)
      square(i, j) = static_cast<float>(wide(i, j));
  }
  return result;
}

}  // namespace

linalg::EigenResult eigenvectors_with_retry(const MatrixView<const float>& matrix, double factor, double shift,
                                            const MatrixView<float>& square, const TensorView<float>& values,
                                            const linalg::DecompositionWorkspace<float>& workspace,
                                            const Decompositions& decompositions) {
  copy_shifted<float>(matrix, factor, shift, square);
  const linalg::EigenResult result = decompositions.single(square, values, workspace);
  return result.ok() ? result : in_double(matrix, factor, shift, square, values, decompositions);
}

linalg::EigenResult inverse_fourth_root(const MatrixView<const float>& matrix, double factor, double epsilon,
                                        const MatrixView<float>& root, const MatrixView<float>& square,
                                        const TensorView<float>& values,
                                        const linalg::DecompositionWorkspace<float>& workspace,
                                        const Decompositions& decompositions) {
  const linalg::EigenResult result =
      eigenvectors_with_retry(matrix, factor, epsilon, square, values, workspace, decompositions);
  if (!result.ok()) return result;
  // The smallest comes first. A covariance has none below zero but for rounding; shifted, all are epsilon or more.
  const auto least = static_cast<double>(values.data()[0]);
  const double shift = least < epsilon ? epsilon - least : 0.0;
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    // Root = V^T diag(l^(-1/4)) V is (D V)^T (D V) with D = diag(l^(-1/8)): exactly symmetric.
    const auto scale = static_cast<float>(std::pow(static_cast<double>(values.data()[i]) + shift, -1.0 / 8.0));
    for (std::int64_t j = 0; j < matrix.cols; ++j)
      square(i, j) *= scale;
  }
  linalg::syrk<float>(linalg::Op::transpose, 1.0F, square, 0.0F, root);
  return result;
}

}  // namespace matrixfsdp::detail
