#include "optim/adamw_kernels.hpp"

#include <cfloat>
#include <cmath>

namespace matrixfsdp::detail {

using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;

bool squares_are_finite(const TensorView<const float>& gradient, float scale) {
  const float* const g = gradient.data();
  std::int64_t bad = 0;
  Kokkos::parallel_reduce(
      "matrixfsdp::optim::adamw_check", Policy(0, static_cast<std::int64_t>(gradient.extent(0))),
      KOKKOS_LAMBDA(const std::int64_t i, std::int64_t& count) {
        const float scaled = scale * g[i];
        count += scaled * scaled <= FLT_MAX ? 0 : 1;
      },
      bad);
  return bad == 0;
}

void adamw_update(const AdamWFactors& factors, const TensorView<const float>& gradient,
                  const TensorView<float>& first_moment, const TensorView<float>& second_moment,
                  const TensorView<float>& weight) {
  const AdamWFactors f = factors;
  const float* const g = gradient.data();
  float* const m = first_moment.data();
  float* const v = second_moment.data();
  float* const w = weight.data();
  Kokkos::parallel_for(
      "matrixfsdp::optim::adamw_update", Policy(0, static_cast<std::int64_t>(gradient.extent(0))),
      KOKKOS_LAMBDA(const std::int64_t i) {
        const float scaled = f.gradient_scale * g[i];
        const float first = f.beta1 * m[i] + f.fraction1 * scaled;
        const float second = f.beta2 * v[i] + f.fraction2 * (scaled * scaled);
        m[i] = first;
        v[i] = second;
        w[i] = w[i] * f.decay - f.step * (first / (sqrtf(second) * f.correction + f.epsilon));
      });
  Kokkos::fence();
}

}  // namespace matrixfsdp::detail
