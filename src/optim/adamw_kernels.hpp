#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::detail {

/// Factors of one step on one segment, computed in double and rounded to float32 once.
struct AdamWFactors {
  float gradient_scale;
  float beta1;
  float fraction1;  // 1 - beta1
  float beta2;
  float fraction2;   // 1 - beta2
  float decay;       // 1 - lr wd
  float step;        // lr / (1 - beta1^t)
  float correction;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

/// Whether the square of every scaled gradient is finite in float32: false for NaN, infinities and magnitudes
/// above 1.8e19, whose second moment would stay infinite for ever.
bool squares_are_finite(const TensorView<const float>& gradient, float scale);

void adamw_update(const AdamWFactors& factors, const TensorView<const float>& gradient,
                  const TensorView<float>& first_moment, const TensorView<float>& second_moment,
                  const TensorView<float>& weight);

}  // namespace matrixfsdp::detail
