#pragma once

#include <matrixfsdp/nn/layer_norm.hpp>
#include <matrixfsdp/nn/rms_norm.hpp>

#include "nn/activations.hpp"

/// The norm of the model's style.
namespace matrixfsdp::nn::detail {

template <class T>
void norm_forward(const PassShape& shape, MatrixView<const T> x, const TensorView<T>& weight, const TensorView<T>& bias,
                  const NormActivations<T>& kept, MatrixView<T> y) {
  if (shape.with_mean) {
    layer_norm_forward<T>(x, weight, bias, y, kept.mean, kept.inverse);
  } else {
    rms_norm_forward<T>(x, weight, y, kept.inverse);
  }
}

template <class T>
void norm_again(const PassShape& shape, MatrixView<const T> x, const TensorView<T>& weight, const TensorView<T>& bias,
                const NormActivations<T>& kept, MatrixView<T> y) {
  if (shape.with_mean) {
    layer_norm_apply<T>(x, weight, bias, kept.mean, kept.inverse, y);
  } else {
    rms_norm_apply<T>(x, weight, kept.inverse, y);
  }
}

template <class T>
void norm_backward(const PassShape& shape, MatrixView<const T> x, const TensorView<T>& weight,
                   const NormActivations<T>& kept, MatrixView<const T> dy, MatrixView<const T> residual,
                   MatrixView<T> dx, const TensorView<T>& weight_gradient, const TensorView<T>& bias_gradient) {
  if (shape.with_mean) {
    layer_norm_backward<T>(x, weight, kept.mean, kept.inverse, dy, residual, dx, weight_gradient, bias_gradient);
  } else {
    rms_norm_backward<T>(x, weight, kept.inverse, dy, residual, dx, weight_gradient);
  }
}

}  // namespace matrixfsdp::nn::detail
