#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/routing.hpp>

/// Runs of any model without a network: the gradients of a micro-batch are a rule.
namespace matrixfsdp::testing {

/// Writes what a micro-batch adds to the gradient of one whole parameter; false where the parameter takes no part in
/// it.
using GradientRule = std::function<bool(const ParameterSpec& spec, std::int64_t micro_batch,
                                        std::span<const float> weight, std::span<float> gradient)>;

/// Values over twenty powers of two, whose float32 sums depend on the order, and an eighth of the weight, so that a
/// stale or misplaced weight shows.
inline void draw_gradient(std::uint64_t seed, const ParameterSpec& spec, std::int64_t micro_batch,
                          std::span<const float> weight, std::span<float> gradient) {
  const CounterRandom random(seed, stream_of(spec.name) + static_cast<std::uint64_t>(micro_batch));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto words = random.words(i);
    const float magnitude = std::ldexp(1.0F, static_cast<int>(words[0] % 21) - 10);
    gradient[i] = magnitude * (static_cast<float>(words[1]) * 0x1.0p-32F - 0.5F) + 0.125F * weight[i];
  }
}

struct SyntheticOptions {
  std::int64_t micro_batches = 1;  ///< per step, of all ranks: a multiple of W
  double max_norm = 0;
  RoutingOptions optimizer;
  ShardedModelOptions sharding;                       ///< passes are set
  StrategyKind strategy = StrategyKind::matrix_fsdp;  ///< of a plan that is not replicated
};

struct SyntheticStep {
  double norm = 0;
  bool finite = true;  ///< otherwise the step was skipped
  StepResult taken;    ///< on this rank
};

/// Whole tensors: weights by the name of the parameter, state by "NAME/what".
using WholeTensors = std::map<std::string, std::vector<float>>;

class SyntheticRun {
 public:
  SyntheticRun(Communicator& communicator, const ModelSpec& model, Plan plan, const SyntheticOptions& options)
      : options_(options),
        strategy_(plan.replicated ? StrategyKind::ddp : options.strategy, communicator, model, std::move(plan),
                  {sharding(communicator, options), options.optimizer}),
        model_(strategy_.model()) {}

  /// Collective.
  SyntheticStep step(const GradientRule& rule) {
    model_.begin_step();
    StepInput input;
    input.step = taken_ + 1;
    if (options_.sharding.step_in_backward) strategy_.step_in_backward(input);
    const int ranks = model_.communicator().size();
    for (std::int64_t pass = 0; pass < options_.micro_batches / ranks; ++pass)
      run_pass(rule, pass * ranks + model_.communicator().rank());
    const GradientNorm norm = gradient_norm(model_);
    SyntheticStep done{norm.norm, norm.finite, {}};
    if (!done.finite) return done;
    input.gradient_scale = clip_scale(norm.norm, options_.max_norm);
    ++taken_;
    done.taken = strategy_.step(input);
    return done;
  }

  [[nodiscard]] ShardedModel& model() { return model_; }
  [[nodiscard]] Optimizer& optimizer() { return strategy_.optimizer(); }
  [[nodiscard]] Strategy& strategy() { return strategy_; }
  [[nodiscard]] std::int64_t steps_taken() const { return taken_; }
  /// After a load.
  void continue_after(std::int64_t steps_taken) { taken_ = steps_taken; }

  /// What this rank holds, where it holds everything (W = 1 or a replicated plan).
  [[nodiscard]] WholeTensors tensors() {
    WholeTensors all;
    visit([&](const std::string& name, Interval, std::span<const float> values) {
      all[name].assign(values.begin(), values.end());
    });
    return all;
  }

  /// The first tensor that this rank holds with other bits than `whole` has in the same place; empty where all agree.
  [[nodiscard]] std::string difference_from(const WholeTensors& whole) {
    std::string difference;
    visit([&](const std::string& name, Interval elements, std::span<const float> values) {
      if (!difference.empty() || values.empty()) return;
      const auto found = whole.find(name);
      if (found == whole.end() || static_cast<std::int64_t>(found->second.size()) < elements.end) {
        difference = name + " is not in the reference";
        return;
      }
      const float* expected = found->second.data() + elements.begin;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::memcmp(&values[i], expected + i, sizeof(float)) == 0) continue;
        difference = name + " element " + std::to_string(elements.begin + static_cast<std::int64_t>(i)) + " is " +
                     std::to_string(values[i]) + ", expected " + std::to_string(expected[i]);
        return;
      }
    });
    return difference;
  }

 private:
  static ShardedModelOptions sharding(const Communicator& communicator, const SyntheticOptions& options) {
    require(options.micro_batches % communicator.size() == 0, "SyntheticRun: micro-batches do not fit the ranks");
    ShardedModelOptions result = options.sharding;
    result.passes = options.micro_batches / communicator.size();
    return result;
  }

  void run_pass(const GradientRule& rule, std::int64_t micro_batch) {
    model_.begin_pass();
    for (std::size_t u = 0; u < model_.unit_count(); ++u) {
      model_.unshard(u, Phase::forward);
      model_.reshard(u);
    }
    for (std::size_t u = model_.unit_count(); u-- > 0;) {
      model_.unshard(u, Phase::backward);
      for (std::size_t p = 0; p < model_.spec().units[u].parameters.size(); ++p)
        add_gradient(rule, u, p, micro_batch);
      model_.reduce(u);
      model_.reshard(u);
    }
  }

  void add_gradient(const GradientRule& rule, std::size_t unit, std::size_t index, std::int64_t micro_batch) {
    const ParameterSpec& spec = model_.spec().units[unit].parameters[index];
    if (spec.frozen) return;
    const TensorView<float>& weight = model_.weights(unit)[index];
    scratch_.resize(weight.size());
    if (!rule(spec, micro_batch, {weight.data(), weight.size()}, scratch_)) return;
    const TensorView<float>& gradient = model_.gradients(unit)[index];
    for (std::size_t i = 0; i < scratch_.size(); ++i)
      gradient(i) += scratch_[i];
  }

  template <class Visitor>
  void visit(const Visitor& visitor) {
    Kokkos::fence();
    for (const ParameterView& view : model_.resident())
      visitor(view.spec->name, view.elements, std::span<const float>(view.weight.data(), view.weight.size()));
    for (const StateView& state : optimizer().state()) {
      const ParameterView& view = optimizer().views()[state.view];
      const Interval elements = state.shape ? Interval{0, element_count(*state.shape)} : view.elements;
      visitor(view.spec->name + "/" + state.name, elements,
              std::span<const float>(state.values.data(), state.values.size()));
    }
  }

  SyntheticOptions options_;
  Strategy strategy_;
  ShardedModel& model_;
  std::int64_t taken_ = 0;
  std::vector<float> scratch_;
};

}  // namespace matrixfsdp::testing
