#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <matrixfsdp/optim/optimizer.hpp>

namespace matrixfsdp::detail {

/// The views in canonical order (unit, index, first element). Throws ContractError naming the parameter for a view
/// without a spec, of a frozen parameter, with a weight or gradient of another size than its interval, out of the
/// parameter's bounds, or overlapping another.
std::vector<ParameterView> canonical(std::vector<ParameterView> views, std::string_view optimizer);

/// The view belongs to `unit`; to none in particular where all are meant.
inline bool is_of(std::optional<std::size_t> unit, const ParameterView& view) {
  return !unit || *unit == view.unit;
}

/// One state tensor for all views, zero from construction: its keys and sizes do not depend on gradients.
class State {
 public:
  State() = default;
  /// A number for each element of a view.
  State(const char* label, const std::vector<ParameterView>& views);
  /// As many numbers for each view as are given.
  State(const char* label, const std::vector<std::int64_t>& sizes);

  /// The values of view `index`.
  [[nodiscard]] TensorView<float> operator[](std::size_t index) const;
  [[nodiscard]] std::int64_t bytes() const;

 private:
  Tensor<float> values_;
  std::vector<std::int64_t> offsets_;  // one more than there are views
};

/// What a view is stepped with: the schedule and its group's scale on the base rate, and its group's decay instead of
/// the optimizer's own.
struct Rates {
  Rates(const ParameterView& view, const StepInput& input, double base_rate, double own_decay)
      : learning_rate(input.schedule * base_rate * view.group.learning_rate_scale),
        weight_decay(view.group.weight_decay.value_or(own_decay)) {}

  double learning_rate;
  double weight_decay;
};

/// Checks options and inputs; written so that NaN is refused. Throws InputError.
void require_at_least(double minimum, double value, std::string_view optimizer, std::string_view option);
void require_below_one(double value, std::string_view optimizer, std::string_view option);

/// Throws ContractError unless step >= 1 and both factors are finite and not negative.
void check(const StepInput& input, std::string_view optimizer);

/// The name of a region for profilers, for as long as this lives.
class Region {
 public:
  explicit Region(const std::string& name) { Kokkos::Profiling::pushRegion(name); }
  ~Region() { Kokkos::Profiling::popRegion(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
};

}  // namespace matrixfsdp::detail
