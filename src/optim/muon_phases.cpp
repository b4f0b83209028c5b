#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/muon_phases.hpp>

#include "orthogonalize/entries.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp {
namespace {

KOKKOS_INLINE_FUNCTION float averaged(const MuonMomentum& factors, float scaled_gradient, float momentum) {
  return factors.decay * momentum + factors.fraction * scaled_gradient;
}

struct ApplyEntry {
  MatrixView<const float> orthogonal;
  MatrixView<float> weight;
  float decay;
  float step;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const {
    weight(row, col) = weight(row, col) * decay - step * orthogonal(row, col);
  }
};

}  // namespace

MuonMomentum::MuonMomentum(double momentum, double gradient_scale, bool use_nesterov)
    : decay(static_cast<float>(momentum)),
      fraction(static_cast<float>(1.0 - momentum)),
      scale(static_cast<float>(gradient_scale)),
      nesterov(use_nesterov) {}

MuonApply::MuonApply(double learning_rate, double weight_decay, double update_scale)
    : decay(static_cast<float>(1.0 - learning_rate * weight_decay)),
      step(static_cast<float>(learning_rate * update_scale)) {}

void muon_direction(const MuonMomentum& factors, TensorView<const float> gradient, TensorView<const float> momentum,
                    TensorView<float> direction) {
  require(gradient.extent(0) == momentum.extent(0) && gradient.extent(0) == direction.extent(0),
          "muon_direction: gradient, momentum and direction have different sizes, expected equal ones");
  const auto size = static_cast<std::int64_t>(gradient.extent(0));
  const float* const g = gradient.data();
  const float* const m = momentum.data();
  float* const u = direction.data();
  const MuonMomentum f = factors;
  if (f.nesterov) {
    detail::for_range(
        "matrixfsdp::optim::muon_nesterov", size, KOKKOS_LAMBDA(const std::int64_t i) {
          const float scaled = f.scale * g[i];
          u[i] = f.fraction * scaled + f.decay * averaged(f, scaled, m[i]);
        });
  } else {
    detail::for_range(
        "matrixfsdp::optim::muon_average", size,
        KOKKOS_LAMBDA(const std::int64_t i) { u[i] = averaged(f, f.scale * g[i], m[i]); });
  }
}

void muon_momentum(const MuonMomentum& factors, TensorView<const float> gradient, TensorView<float> momentum) {
  require(gradient.extent(0) == momentum.extent(0),
          "muon_momentum: gradient and momentum have different sizes, expected equal ones");
  const float* const g = gradient.data();
  float* const m = momentum.data();
  const MuonMomentum f = factors;
  detail::for_range(
      "matrixfsdp::optim::muon_momentum", static_cast<std::int64_t>(gradient.extent(0)),
      KOKKOS_LAMBDA(const std::int64_t i) { m[i] = averaged(f, f.scale * g[i], m[i]); });
}

void muon_apply(const MuonApply& factors, MatrixView<const float> orthogonal, MatrixView<float> weight) {
  require(orthogonal.rows == weight.rows && orthogonal.cols == weight.cols,
          "muon_apply: update and weight have different extents, expected equal ones");
  detail::for_each_entry("matrixfsdp::optim::muon_apply", weight.rows, weight.cols,
                         ApplyEntry{orthogonal, weight, factors.decay, factors.step});
}

}  // namespace matrixfsdp
