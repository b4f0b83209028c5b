#pragma once

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// What is unchecked, and what T is: see activation.hpp.
namespace matrixfsdp::nn {

/// y = (x - mean(x)) / sqrt(variance(x) + 1e-5) * weight + bias, row by row (Ba, Kiros, Hinton 2016). Keeps mean and
/// 1 / sqrt(...) of each row for the backward pass. x, y: rows x cols, cols >= 1; weight, bias: cols; mean,
/// inverse_deviation: rows.
template <class T>
void layer_norm_forward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> bias,
                        MatrixView<std::type_identity_t<T>> y, TensorView<T> mean, TensorView<T> inverse_deviation);

/// y again from x and the kept statistics: the same bits as the forward pass.
template <class T>
void layer_norm_apply(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> bias,
                      TensorView<T> mean, TensorView<T> inverse_deviation, MatrixView<std::type_identity_t<T>> y);

/// dx = residual + gradient of x; `residual` may be dx itself, or have no data (zero); dy and dx are like x. Adds to
/// the gradients of weight and bias; an empty one is skipped.
template <class T>
void layer_norm_backward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> mean,
                         TensorView<T> inverse_deviation, MatrixView<const std::type_identity_t<T>> dy,
                         MatrixView<const std::type_identity_t<T>> residual, MatrixView<std::type_identity_t<T>> dx,
                         TensorView<T> weight_gradient, TensorView<T> bias_gradient);

}  // namespace matrixfsdp::nn
