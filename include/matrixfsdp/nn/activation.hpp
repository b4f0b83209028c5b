#pragma once

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// Unchecked, here and in the other layers of this folder unless a function says otherwise: extents fit as stated,
/// tensors are large enough, and what is not said to be in place does not overlap. Transformer checks what it is given,
/// once per call. T is float or double. Every function is complete when it returns.
namespace matrixfsdp::nn {

/// y = 0.5 u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))): GPT-2's GELU (Hendrycks and Gimpel 2016), computed as
/// u sigmoid(2 sqrt(2 / pi) (...)), which keeps its relative accuracy for negative u. u and y: rows x cols.
template <class T>
void gelu_forward(MatrixView<const std::type_identity_t<T>> u, MatrixView<std::type_identity_t<T>> y);

/// In place, so that no second array is needed: `u` becomes its own gradient, and `dy` becomes y again (what the weight
/// gradient of the next layer needs). Equal extents.
template <class T>
void gelu_backward(MatrixView<std::type_identity_t<T>> u, MatrixView<std::type_identity_t<T>> dy);

/// y = silu(gate) * up, silu(g) = g sigmoid(g) (Shazeer 2020). y: rows x cols; `gate_up`: rows x 2 cols, the columns of
/// gate, then those of up.
template <class T>
void swiglu_forward(MatrixView<const std::type_identity_t<T>> gate_up, MatrixView<std::type_identity_t<T>> y);

/// In place: `gate_up` becomes its own gradient, `dy` becomes y again. Extents as in swiglu_forward.
template <class T>
void swiglu_backward(MatrixView<std::type_identity_t<T>> gate_up, MatrixView<std::type_identity_t<T>> dy);

}  // namespace matrixfsdp::nn
