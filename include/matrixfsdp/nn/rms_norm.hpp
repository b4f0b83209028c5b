#pragma once

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// What is unchecked, and what T is: see activation.hpp.
namespace matrixfsdp::nn {

/// y = x / sqrt(mean(x^2) + 1e-5) * weight, row by row (Zhang and Sennrich 2019). Keeps 1 / sqrt(...) of each row. x,
/// y: rows x cols, cols >= 1; weight: cols; inverse_rms: rows.
template <class T>
void rms_norm_forward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight,
                      MatrixView<std::type_identity_t<T>> y, TensorView<T> inverse_rms);

/// y again from x and the kept statistics: the same bits as the forward pass.
template <class T>
void rms_norm_apply(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> inverse_rms,
                    MatrixView<std::type_identity_t<T>> y);

/// dx = residual + gradient of x; `residual` may be dx itself, or have no data (zero); dy and dx are like x. Adds to
/// the gradient of weight; an empty one is skipped.
template <class T>
void rms_norm_backward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> inverse_rms,
                       MatrixView<const std::type_identity_t<T>> dy, MatrixView<const std::type_identity_t<T>> residual,
                       MatrixView<std::type_identity_t<T>> dx, TensorView<T> weight_gradient);

}  // namespace matrixfsdp::nn
