#pragma once

#include <matrixfsdp/linalg/eigen.hpp>

namespace matrixfsdp::detail {

/// The two decompositions that are tried one after the other; tests put ones that fail in their place.
struct Decompositions {
  decltype(&linalg::eigenvectors<float>) single = &linalg::eigenvectors<float>;
  decltype(&linalg::eigenvectors<double>) twice = &linalg::eigenvectors<double>;
};

/// `square`, a copy of the symmetric `matrix` times `factor` with `shift` added to its diagonal, becomes its
/// eigenvectors (as linalg::eigenvectors), with `values`. Where that fails in float32 the same is done in double, with
/// memory of its own, and rounded. Returns how the last attempt ended.
linalg::EigenResult eigenvectors_with_retry(const MatrixView<const float>& matrix, double factor, double shift,
                                            const MatrixView<float>& square, const TensorView<float>& values,
                                            const linalg::DecompositionWorkspace<float>& workspace,
                                            const Decompositions& decompositions = {});

/// root <- (factor matrix + epsilon I)^(-1/4), as Shampoo has it; `square` and `values` are scratch. The root stays as
/// it is unless the result is ok.
linalg::EigenResult inverse_fourth_root(const MatrixView<const float>& matrix, double factor, double epsilon,
                                        const MatrixView<float>& root, const MatrixView<float>& square,
                                        const TensorView<float>& values,
                                        const linalg::DecompositionWorkspace<float>& workspace,
                                        const Decompositions& decompositions = {});

}  // namespace matrixfsdp::detail
