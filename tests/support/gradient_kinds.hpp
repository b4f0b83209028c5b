#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "support/synthetic_run.hpp"

/// The kinds of gradients that a step may meet, as rules.
namespace matrixfsdp::testing {

/// spike: one element of each parameter is so large that its square is not finite in float32.
enum class GradientKind { zero, tiny, ordinary, missing, non_finite, spike, huge };

/// In an order in which each meets the state that the one before has left; `huge` stays in momenta, so it is late.
inline constexpr std::array all_gradient_kinds{GradientKind::zero,    GradientKind::tiny,       GradientKind::ordinary,
                                               GradientKind::missing, GradientKind::non_finite, GradientKind::ordinary,
                                               GradientKind::spike,   GradientKind::ordinary,   GradientKind::huge,
                                               GradientKind::ordinary};

inline std::string_view name_of(GradientKind kind) {
  constexpr std::array<std::string_view, 7> names{"zero", "tiny", "ordinary", "missing", "non-finite", "spike", "huge"};
  return names.at(static_cast<std::size_t>(kind));
}

/// Of GradientKind::missing: no micro-batch uses it.
inline bool is_never_used(const ParameterSpec& spec) {
  return stream_of(spec.name) % 3 == 0;
}

/// Gradients of `micro_batches` micro-batches; with `missing` every other micro-batch has none at all.
inline GradientRule gradients_of(GradientKind kind, std::uint64_t seed, std::int64_t micro_batches) {
  return [=](const ParameterSpec& spec, std::int64_t micro_batch, std::span<const float> weight,
             std::span<float> gradient) {
    if (kind == GradientKind::zero) {
      std::fill(gradient.begin(), gradient.end(), 0.0F);
      return true;
    }
    if (kind == GradientKind::missing && (micro_batch % 2 == 1 || is_never_used(spec))) return false;
    draw_gradient(seed, spec, micro_batch, weight, gradient);
    float factor = 1.0F;
    if (kind == GradientKind::tiny) factor = 1e-30F;
    if (kind == GradientKind::huge) factor = 1e30F;
    for (float& value : gradient)
      value *= factor;
    if (kind == GradientKind::spike && !gradient.empty()) gradient.back() = 1e25F;
    if (kind == GradientKind::non_finite && micro_batch == micro_batches - 1 && spec.name == "m.18x3") {
      gradient[7] = std::numeric_limits<float>::quiet_NaN();
      gradient[8] = std::numeric_limits<float>::infinity();
    }
    return true;
  };
}

}  // namespace matrixfsdp::testing
