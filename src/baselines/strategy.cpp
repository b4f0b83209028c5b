#include <chrono>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/core/error.hpp>

#include "baselines/row_muon.hpp"

namespace matrixfsdp {
namespace {

void check_collectives(StrategyKind kind, const ShardedModelOptions& sharding) {
  bool padded = sharding.unit_collectives.empty() && sharding.collective == CollectiveAlgorithm::padded;
  for (const UnitAlgorithms& unit : sharding.unit_collectives)
    padded = padded || unit.unshard == CollectiveAlgorithm::padded;
  if (padded && has_row_shards(kind)) {
    throw InputError(
        fmt::format("collective padded with strategy {}: expected another, its shards are even and need no padding",
                    name_of(kind)));
  }
}

ShardedModelOptions sharding_of(StrategyKind kind, int ranks, const ModelSpec& model, const ShardedModelOptions& given,
                                MatrixOptimizer matrices) {
  require_supported(kind, matrices);
  check_strategy(kind, ranks, model, given);
  ShardedModelOptions sharding = given;
  sharding.resident_weights = kind == StrategyKind::zero1_owner;
  return sharding;
}

Plan checked(StrategyKind kind, Plan plan) {
  if (plan.replicated != (kind == StrategyKind::ddp) || plan.row_shards != has_row_shards(kind)) {
    throw ContractError(
        fmt::format("strategy {}: plan \"{}\", expected that of make_strategy_plan", name_of(kind), plan.planner));
  }
  return plan;
}

std::unique_ptr<Optimizer> optimizer_of(StrategyKind kind, ShardedModel& model, const StrategyOptions& options) {
  if (options.matrices_ahead < 0)
    throw ContractError(fmt::format("{} matrices ahead: expected 0 or more", options.matrices_ahead));
  if (!has_row_shards(kind) || model.plan().world_size == 1)
    return make_optimizer(model.trainable(), options.optimizer);
  if (options.optimizer.matrices == MatrixOptimizer::adamw) return make_optimizer(model.trainable(), options.optimizer);
  const CollectiveAlgorithm algorithm = options.sharding.collective;
  return make_optimizer(model.trainable(), options.optimizer,
                        [&](std::vector<ParameterView> views, const RoutingOptions& routing) {
                          const MuonOptions& muon = routing.muon;
                          if (kind == StrategyKind::fsdp2)
                            return baselines::make_sharded_muon(model, std::move(views), muon, algorithm);
                          if (kind == StrategyKind::fsdp2_gather)
                            return baselines::make_gathered_muon(model, std::move(views), muon, routing.workers,
                                                                 algorithm, options.matrices_ahead);
                          return baselines::make_exchanged_muon(model, std::move(views), muon, routing.workers);
                        });
}

}  // namespace

void check_strategy(StrategyKind kind, int world_size, const ModelSpec& model, const ShardedModelOptions& sharding) {
  const bool one_group = sharding.shard_size == 0 || sharding.shard_size == world_size;
  if (!one_group && kind != StrategyKind::matrix_fsdp) {
    throw InputError(fmt::format("shard size {} with strategy {}: expected 0, only matrix-fsdp has shard groups",
                                 sharding.shard_size, name_of(kind)));
  }
  check_collectives(kind, sharding);
  if (sharding.step_in_backward && kind != StrategyKind::matrix_fsdp) {
    throw InputError(fmt::format(
        "step in backward with strategy {}: expected matrix-fsdp, whose owners alone step without communication",
        name_of(kind)));
  }
  if (kind == StrategyKind::matrix_fsdp || kind == StrategyKind::ddp) return;
  const std::vector<UnitPolicy> policies = resolve(sharding.policies, model, world_size);
  for (std::size_t u = 0; u < policies.size(); ++u) {
    const std::string& unit = model.units[u].name;
    if (policies[u].reshard_to > 1) {
      throw InputError(fmt::format("reshard of unit {} to {} ranks with strategy {}: expected yes or no", unit,
                                   policies[u].reshard_to, name_of(kind)));
    }
    if (kind == StrategyKind::zero1_owner && policies[u].param_dtype != DType::float32) {
      throw InputError(
          fmt::format("weights of unit {} as {} with strategy {}: expected float32, they stay on every rank", unit,
                      name_of(policies[u].param_dtype), name_of(kind)));
    }
  }
}

struct Strategy::Implementation {
  Implementation(StrategyKind strategy, Communicator& communicator, ModelSpec spec, Plan plan,
                 const StrategyOptions& options)
      : kind(strategy),
        cost(cost_of(options.optimizer)),
        model(communicator, spec, checked(strategy, std::move(plan)),
              sharding_of(strategy, communicator.size(), spec, options.sharding, options.optimizer.matrices)),
        optimizer(optimizer_of(strategy, model, options)),
        in_backward(options.sharding.step_in_backward) {
    if (in_backward) model.set_unit_step([this](std::size_t unit) { step_unit(unit); });
  }

  void step_unit(std::size_t unit);
  StepResult finish_unit_steps(const StepInput& input);

  StrategyKind kind;
  OptimizerCost cost;
  ShardedModel model;
  std::unique_ptr<Optimizer> optimizer;
  bool in_backward;
  std::optional<StepInput> input;  ///< of the step in backward
  std::function<void()> before_first;
  StepResult done;
  std::vector<NonFinite> failures;  ///< likewise
  double unit_step_seconds = 0;
};

void Strategy::Implementation::step_unit(std::size_t unit) {
  if (!input) {
    throw ContractError(fmt::format("step of unit {} in backward: expected Strategy::step_in_backward first",
                                    model.spec().units[unit].name));
  }
  if (before_first) std::exchange(before_first, {})();
  const auto start = std::chrono::steady_clock::now();
  StepInput one = *input;
  one.unit = unit;
  StepResult result = optimizer->step(one);
  if (!result.failed.empty()) {
    for (NonFinite& value : non_finite_values(*optimizer, unit, result.failed))
      failures.push_back(std::move(value));
  }
  append(std::move(result), done);
  unit_step_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

StepResult Strategy::Implementation::finish_unit_steps(const StepInput& given) {
  const auto values = [](const StepInput& one) { return std::tuple(one.gradient_scale, one.schedule, one.step); };
  if (!input || values(*input) != values(given)) {
    throw ContractError(fmt::format("step {}: expected the step that backward has taken, {}", given.step,
                                    input ? fmt::format("{}", input->step) : "none"));
  }
  model.finish_unit_steps();
  input.reset();
  return std::exchange(done, {});
}

Strategy::Strategy(StrategyKind kind, Communicator& communicator, ModelSpec model, Plan plan,
                   const StrategyOptions& options)
    : implementation_(
          std::make_unique<Implementation>(kind, communicator, std::move(model), std::move(plan), options)) {}
Strategy::~Strategy() = default;

StrategyKind Strategy::kind() const {
  return implementation_->kind;
}
ShardedModel& Strategy::model() {
  return implementation_->model;
}
const ShardedModel& Strategy::model() const {
  return implementation_->model;
}
Optimizer& Strategy::optimizer() {
  return *implementation_->optimizer;
}
const Optimizer& Strategy::optimizer() const {
  return *implementation_->optimizer;
}

void Strategy::step_in_backward(const StepInput& input, std::function<void()> before_first) {
  require(implementation_->in_backward, "step in backward: expected a model that was made for it");
  if (input.gradient_scale != 1.0) {
    throw ContractError(fmt::format(
        "step in backward with a gradient scale of {}: expected 1, clipping needs the norm of all gradients first",
        input.gradient_scale));
  }
  implementation_->input = input;
  implementation_->before_first = std::move(before_first);
  implementation_->done = {};
  implementation_->failures.clear();
  implementation_->unit_step_seconds = 0;
}

const std::vector<NonFinite>& Strategy::unit_failures() const {
  return implementation_->failures;
}

double Strategy::unit_step_seconds() const {
  return implementation_->unit_step_seconds;
}

StepResult Strategy::step(const StepInput& input) {
  implementation_->model.complete();  // weights that are still sent must not change
  StepResult result = implementation_->in_backward ? implementation_->finish_unit_steps(input)
                                                   : implementation_->optimizer->step(input);
  implementation_->model.weights_changed();
  return result;
}

std::int64_t Strategy::orthogonalizations() const {
  const Plan& plan = implementation_->model.plan();
  const int ranks = implementation_->model.communicator().size();
  const bool everywhere = plan.replicated || implementation_->kind == StrategyKind::fsdp2_gather;
  return (everywhere ? ranks : ranks / plan.world_size) *
         stepped_matrix_count(implementation_->model.spec(), implementation_->cost);
}

}  // namespace matrixfsdp
