#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// What is unchecked, and what T is: see activation.hpp.
namespace matrixfsdp::nn {

/// y(r) = tokens(id of row r) + positions(r mod sequence_length); positions without data are none. y: rows x hidden;
/// tokens: vocabulary x hidden; positions: at least sequence_length rows. Unchecked: one id per row, each
/// a row of the table.
template <class T>
void embedding_forward(TensorView<std::int32_t> ids, MatrixView<const std::type_identity_t<T>> tokens,
                       MatrixView<const std::type_identity_t<T>> positions, std::int64_t sequence_length,
                       MatrixView<std::type_identity_t<T>> y);

/// Adds the rows of dy (like y) to the gradients of both tables, in the order of the rows; one without data is skipped.
template <class T>
void embedding_backward(TensorView<std::int32_t> ids, MatrixView<const std::type_identity_t<T>> dy,
                        std::int64_t sequence_length, MatrixView<std::type_identity_t<T>> tokens_gradient,
                        MatrixView<std::type_identity_t<T>> positions_gradient);

}  // namespace matrixfsdp::nn
