#pragma once

#include <cstdint>

#include <matrixfsdp/nn/products.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// What is unchecked, and what T is: see activation.hpp.
namespace matrixfsdp::nn {

/// Sum over the rows of -log softmax(x W^T)(target of the row), in double and in the order of the rows. W is
/// (vocabulary, features) with at least one row (ContractError), x (tokens, features). `targets`: one id in [0,
/// vocabulary) per row (unchecked: Transformer checks). `logits` is scratch of at least one row of W.rows elements
/// (ContractError): as many rows as it holds are worked on together. `losses` is scratch of x.rows elements.
template <class T>
double linear_cross_entropy(MatrixView<const std::type_identity_t<T>> x,
                            MatrixView<const std::type_identity_t<T>> weight, TensorView<std::int32_t> targets,
                            TensorView<T> logits, TensorView<double> losses, Products& products);

/// The same sum, with the gradient of scale * sum: overwrites dx (like x), adds to the weight gradient (like W,
/// row-major; an empty one is skipped).
template <class T>
double linear_cross_entropy_backward(MatrixView<const std::type_identity_t<T>> x,
                                     MatrixView<const std::type_identity_t<T>> weight, TensorView<std::int32_t> targets,
                                     T scale, MatrixView<std::type_identity_t<T>> dx, TensorView<T> weight_gradient,
                                     TensorView<T> logits, TensorView<double> losses, Products& products);

}  // namespace matrixfsdp::nn
