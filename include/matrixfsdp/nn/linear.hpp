#pragma once

#include <matrixfsdp/nn/products.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// Linear maps with weights (out features, in features): x and dx are rows x in, y, dy and residual rows x out, a bias
/// has `out` elements. Extents of products that do not fit throw ContractError (as linalg::gemm); sizes of biases,
/// residual and gradients are unchecked. T: see activation.hpp.
namespace matrixfsdp::nn {

/// y = x W^T + bias; an empty bias is none.
template <class T>
void linear_forward(MatrixView<const std::type_identity_t<T>> x, MatrixView<const std::type_identity_t<T>> weight,
                    TensorView<T> bias, MatrixView<std::type_identity_t<T>> y, Products& products);

/// y = residual + x W^T + bias in one go; y may be the residual.
template <class T>
void linear_residual_forward(MatrixView<const std::type_identity_t<T>> x,
                             MatrixView<const std::type_identity_t<T>> weight, TensorView<T> bias,
                             MatrixView<const std::type_identity_t<T>> residual, MatrixView<std::type_identity_t<T>> y,
                             Products& products);

/// dx = dy W, overwritten.
template <class T>
void linear_input_gradient(MatrixView<const std::type_identity_t<T>> dy,
                           MatrixView<const std::type_identity_t<T>> weight, MatrixView<std::type_identity_t<T>> dx,
                           Products& products);

/// dW += dy^T x and dbias += column sums of dy; an empty gradient is skipped.
template <class T>
void linear_weight_gradient(MatrixView<const std::type_identity_t<T>> dy, MatrixView<const std::type_identity_t<T>> x,
                            TensorView<T> weight_gradient, TensorView<T> bias_gradient, Products& products);

}  // namespace matrixfsdp::nn
