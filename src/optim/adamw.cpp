#include <algorithm>
#include <cmath>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/adamw.hpp>
#include <matrixfsdp/plan/plan.hpp>

#include "optim/adamw_kernels.hpp"
#include "optim/views.hpp"

namespace matrixfsdp {
namespace {

constexpr const char* self = "AdamW";
constexpr std::int64_t flops_per_element = 12;  // as step_flops counts it

void check(const AdamWOptions& options) {
  detail::require_at_least(0.0, options.learning_rate, self, "learning rate");
  detail::require_at_least(0.0, options.weight_decay, self, "weight decay");
  detail::require_below_one(options.beta1, self, "beta1");
  detail::require_below_one(options.beta2, self, "beta2");
  detail::require_at_least(0.0, options.epsilon, self, "epsilon");
  // 0 / 0 where a gradient has always been zero.
  if (static_cast<float>(options.epsilon) == 0.0F) throw InputError("AdamW: epsilon is 0 in float32, expected more");
}

detail::AdamWFactors factors_for(const ParameterView& view, const AdamWOptions& options, const StepInput& input) {
  const double own_decay = view.spec->shape.size() >= 2 ? options.weight_decay : 0.0;
  const detail::Rates rates(view, input, options.learning_rate, own_decay);
  const auto t = static_cast<double>(input.step);
  detail::AdamWFactors factors{};
  factors.gradient_scale = static_cast<float>(input.gradient_scale);
  factors.beta1 = static_cast<float>(options.beta1);
  factors.fraction1 = static_cast<float>(1.0 - options.beta1);
  factors.beta2 = static_cast<float>(options.beta2);
  factors.fraction2 = static_cast<float>(1.0 - options.beta2);
  factors.decay = static_cast<float>(1.0 - rates.learning_rate * rates.weight_decay);
  factors.step = static_cast<float>(rates.learning_rate / (1.0 - std::pow(options.beta1, t)));
  factors.correction = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, t)));
  factors.epsilon = static_cast<float>(options.epsilon);
  return factors;
}

}  // namespace

struct AdamW::Implementation {
  std::vector<ParameterView> views;
  AdamWOptions options;
  detail::State first_moment;
  detail::State second_moment;

  /// `elements` within the view.
  void update(std::size_t index, const detail::AdamWFactors& factors, Interval elements, StepResult& result);
  void update_finite_blocks(std::size_t index, const detail::AdamWFactors& factors, StepResult& result);
};

void AdamW::Implementation::update(std::size_t index, const detail::AdamWFactors& factors, Interval elements,
                                   StepResult& result) {
  const auto part = [elements](const auto& values) { return slice(values, elements.begin, elements.size()); };
  detail::adamw_update(factors, part(views[index].gradient), part(first_moment[index]), part(second_moment[index]),
                       part(views[index].weight));
  result.flops += flops_per_element * elements.size();
}

// Planners cut tails between norm blocks only, so what fails does not depend on where a parameter is cut, nor on W.
void AdamW::Implementation::update_finite_blocks(std::size_t index, const detail::AdamWFactors& factors,
                                                 StepResult& result) {
  const ParameterView& view = views[index];
  for (std::int64_t begin = view.elements.begin; begin < view.elements.end;) {
    const std::int64_t end = std::min(view.elements.end, (begin / norm_block + 1) * norm_block);
    const Interval block{begin - view.elements.begin, end - view.elements.begin};
    if (detail::squares_are_finite(slice(view.gradient, block.begin, block.size()), factors.gradient_scale)) {
      update(index, factors, block, result);
    }
    begin = end;
  }
}

AdamW::AdamW(std::vector<ParameterView> views, const AdamWOptions& options)
    : implementation_(std::make_unique<Implementation>()) {
  check(options);
  implementation_->views = detail::canonical(std::move(views), self);
  implementation_->options = options;
  implementation_->first_moment = detail::State("matrixfsdp::optim::first_moment", implementation_->views);
  implementation_->second_moment = detail::State("matrixfsdp::optim::second_moment", implementation_->views);
}

AdamW::~AdamW() = default;

StepResult AdamW::step(const StepInput& input) {
  detail::check(input, self);
  const detail::Region region("matrixfsdp::optim::adamw");
  StepResult result;
  for (std::size_t i = 0; i < implementation_->views.size(); ++i) {
    const ParameterView& view = implementation_->views[i];
    if (!detail::is_of(input.unit, view)) continue;
    if (input.observer != nullptr) input.observer->before_step(view);
    const detail::AdamWFactors factors = factors_for(view, implementation_->options, input);
    if (detail::squares_are_finite(view.gradient, factors.gradient_scale)) {
      implementation_->update(i, factors, {0, view.elements.size()}, result);
    } else {
      implementation_->update_finite_blocks(i, factors, result);
      result.failed.push_back(view.spec->name);
    }
  }
  return result;
}

const std::vector<ParameterView>& AdamW::views() const {
  return implementation_->views;
}

std::vector<StateView> AdamW::state() {
  std::vector<StateView> state;
  for (std::size_t i = 0; i < implementation_->views.size(); ++i) {
    state.push_back({i, "first_moment", implementation_->first_moment[i], "adamw"});
    state.push_back({i, "second_moment", implementation_->second_moment[i], "adamw"});
  }
  return state;
}

std::int64_t AdamW::state_bytes() const {
  return implementation_->first_moment.bytes() + implementation_->second_moment.bytes();
}

std::int64_t AdamW::workspace_bytes() const {
  return 0;
}

}  // namespace matrixfsdp
