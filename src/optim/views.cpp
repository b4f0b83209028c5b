#include "optim/views.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp::detail {
namespace {

auto position(const ParameterView& view) {
  return std::tuple(view.unit, view.index, view.elements.begin);
}

void check(const ParameterView& view, std::string_view optimizer) {
  if (view.spec == nullptr) {
    throw ContractError(fmt::format("{}: view of unit {}, parameter {} has no spec", optimizer, view.unit, view.index));
  }
  const std::string& name = view.spec->name;
  if (view.spec->frozen) {
    throw ContractError(fmt::format("{}: {} is frozen, expected trainable parameters only", optimizer, name));
  }
  const std::int64_t count = element_count(view.spec->shape);
  if (view.elements.begin < 0 || view.elements.end < view.elements.begin || view.elements.end > count) {
    throw ContractError(fmt::format("{}: {} elements [{}, {}), expected an interval of [0, {})", optimizer, name,
                                    view.elements.begin, view.elements.end, count));
  }
  const auto size = static_cast<std::size_t>(view.elements.size());
  if (view.weight.extent(0) != size || view.gradient.extent(0) != size) {
    throw ContractError(fmt::format("{}: {} has {} weights and {} gradients, expected {} of each", optimizer, name,
                                    view.weight.extent(0), view.gradient.extent(0), size));
  }
}

}  // namespace

std::vector<ParameterView> canonical(std::vector<ParameterView> views, std::string_view optimizer) {
  for (const ParameterView& view : views)
    check(view, optimizer);
  std::stable_sort(views.begin(), views.end(), [](const ParameterView& left, const ParameterView& right) {
    return position(left) < position(right);
  });
  for (std::size_t i = 1; i < views.size(); ++i) {
    const ParameterView& before = views[i - 1];
    const ParameterView& view = views[i];
    if (before.unit == view.unit && before.index == view.index && before.elements.end > view.elements.begin) {
      throw ContractError(fmt::format("{}: {} elements [{}, {}) and [{}, {}) overlap", optimizer, view.spec->name,
                                      before.elements.begin, before.elements.end, view.elements.begin,
                                      view.elements.end));
    }
  }
  return views;
}

namespace {

std::vector<std::int64_t> sizes_of(const std::vector<ParameterView>& views) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(views.size());
  for (const ParameterView& view : views)
    sizes.push_back(view.elements.size());
  return sizes;
}

}  // namespace

State::State(const char* label, const std::vector<ParameterView>& views) : State(label, sizes_of(views)) {}

State::State(const char* label, const std::vector<std::int64_t>& sizes) {
  offsets_.reserve(sizes.size() + 1);
  offsets_.push_back(0);
  for (const std::int64_t size : sizes)
    offsets_.push_back(offsets_.back() + size);
  values_ = make_zeros<float>(label, offsets_.back());
}

TensorView<float> State::operator[](std::size_t index) const {
  return slice(values_, offsets_[index], offsets_[index + 1] - offsets_[index]);
}

std::int64_t State::bytes() const {
  return static_cast<std::int64_t>(values_.extent(0) * sizeof(float));
}

void require_at_least(double minimum, double value, std::string_view optimizer, std::string_view option) {
  if (value >= minimum && std::isfinite(value)) return;
  throw InputError(
      fmt::format("{}: {} {}, expected a finite number of at least {}", optimizer, option, value, minimum));
}

void require_below_one(double value, std::string_view optimizer, std::string_view option) {
  if (value >= 0.0 && value < 1.0) return;
  throw InputError(fmt::format("{}: {} {}, expected 0 <= {} < 1", optimizer, option, value, option));
}

void check(const StepInput& input, std::string_view optimizer) {
  if (input.step < 1) throw ContractError(fmt::format("{}: step {}, expected at least 1", optimizer, input.step));
  for (const double factor : {input.gradient_scale, input.schedule}) {
    if (factor >= 0.0 && std::isfinite(factor)) continue;
    throw ContractError(fmt::format("{}: step {} has gradient scale {} and schedule {}, expected finite numbers >= 0",
                                    optimizer, input.step, input.gradient_scale, input.schedule));
  }
}

}  // namespace matrixfsdp::detail
