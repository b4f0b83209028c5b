#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>

#include "fsdp/implementation.hpp"

namespace matrixfsdp {

ShardedModel::Implementation::Implementation(Communicator& communicator_, ModelSpec model_, Plan plan_,
                                             const ShardedModelOptions& options_)
    : communicator(communicator_), model(std::move(model_)), plan(std::move(plan_)), options(options_) {
  const int ranks = communicator.size();
  group.size = options.shard_size == 0 ? ranks : options.shard_size;
  if (group.size < 1 || ranks % group.size != 0 || (plan.replicated && group.size != ranks)) {
    throw ContractError(fmt::format(
        "shard size {}: expected {}", options.shard_size,
        plan.replicated ? "0, because the plan is replicated" : fmt::format("0, or one that divides {} ranks", ranks)));
  }
  group.first = communicator.rank() / group.size * group.size;
  if (plan.world_size != group.size)
    throw ContractError(fmt::format("plan for W = {}: a shard group has {} ranks", plan.world_size, group.size));
  if (options.prefetch < 0) throw ContractError(fmt::format("prefetch {}: expected 0 or more", options.prefetch));
  if (options.reduces_in_flight < 0) {
    throw ContractError(fmt::format("{} reduces in flight: expected 0 or more", options.reduces_in_flight));
  }
  if (options.passes < 1) throw ContractError(fmt::format("passes {}: expected 1 or more", options.passes));
  if (options.sum_group > 1 && options.accumulation == Accumulation::unsharded) {
    throw InputError(fmt::format(
        "sum group of {} micro-batches: expected 1 with unsharded accumulation, which sums the passes of a rank first",
        options.sum_group));
  }
  if (options.step_in_backward && (plan.replicated || plan.row_shards || options.resident_weights)) {
    throw ContractError(
        fmt::format("step in backward with {}: expected shards that are whole matrices of owners",
                    options.resident_weights ? "resident weights" : fmt::format("plan \"{}\"", plan.planner)));
  }
  validate(model);
  validate(model, plan);
  if (!options.unit_collectives.empty() && options.unit_collectives.size() != model.units.size()) {
    throw ContractError(fmt::format("collectives of {} units: expected none, or one for each of the model's {} units",
                                    options.unit_collectives.size(), model.units.size()));
  }
  require_equal(communicator, hash_of(model), "model specification (hash)");
  require_equal(communicator, hash_of(plan), "plan (hash)");
  std::vector<std::string> policies;
  for (const UnitPolicy& policy : resolve(options.policies, model, group.size))
    policies.push_back(
        fmt::format("{}/{}/{}", name_of(policy.param_dtype), name_of(policy.reduce_dtype), policy.reshard_to));
  std::string settings = fmt::format(
      "prefetch {}, reduces in flight {}, shard size {}, passes {}, accumulation {}, sum group {}, collective {}, "
      "reduce {}, seed {}, resident weights {}, step in backward {}, policies {}",
      options.prefetch, options.reduces_in_flight, group.size, options.passes, static_cast<int>(options.accumulation),
      options.sum_group, name_of(options.collective), name_of(options.reduce_collective), options.seed,
      options.resident_weights, options.step_in_backward, fmt::join(policies, " "));
  for (const UnitAlgorithms& unit : options.unit_collectives)
    settings += fmt::format(", {} {}", name_of(unit.unshard), name_of(unit.reduce));
  require_equal(communicator, stream_of(settings), "model options (hash)");
  if (communicator.size() == 1) options.reduces_in_flight = 0;  // they are complete at once
  all_nodes = mpi::topology_of(communicator);
  topology = topology_of(all_nodes, group);
  allocate();
  initialize_weights();
  if (options.progress_thread && communicator.size() > 1 && ProgressThread::available()) progress.emplace(communicator);
}

Unit& ShardedModel::Implementation::at(std::size_t unit) {
  if (unit >= units.size()) {
    throw ContractError(fmt::format("unit {}: the model has {} units", unit, units.size()));
  }
  return units[unit];
}

void ShardedModel::Implementation::announce(const char* operation, std::size_t unit, const char* phase) {
  if (step > 1 || communicator.size() == 1) return;
  const std::string mine = fmt::format("{} of unit {} ({})", operation, units[unit].name, phase);
  const auto all = communicator.all_gather(Purpose::other, std::as_bytes(std::span(mine)),
                                           {"first-step sequence check", units[unit].name, phase});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string other(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (other != mine) {
      throw CommunicationError(
          fmt::format("sequence of operations: rank {} is at {}, rank {} is at {}; expected the "
                      "same order on all ranks",
                      communicator.rank(), mine, rank, other));
    }
  }
}

ShardedModel::ShardedModel(Communicator& communicator, ModelSpec model, Plan plan, const ShardedModelOptions& options)
    : implementation_(std::make_unique<Implementation>(communicator, std::move(model), std::move(plan), options)) {}
ShardedModel::~ShardedModel() = default;

const ModelSpec& ShardedModel::spec() const {
  return implementation_->model;
}
const Plan& ShardedModel::plan() const {
  return implementation_->plan;
}
Communicator& ShardedModel::communicator() const {
  return implementation_->communicator;
}
RankGroup ShardedModel::shard_group() const {
  return implementation_->group;
}
std::size_t ShardedModel::unit_count() const {
  return implementation_->units.size();
}

void ShardedModel::unshard(std::size_t unit, Phase phase) {
  implementation_->unshard(unit, phase);
}
void ShardedModel::reshard(std::size_t unit) {
  implementation_->reshard(unit);
}
UnitState ShardedModel::state(std::size_t unit) const {
  return implementation_->at(unit).state;
}
int ShardedModel::uses(std::size_t unit) const {
  return implementation_->at(unit).uses;
}

const UnitTensors<float>& ShardedModel::weights(std::size_t unit) const {
  const Unit& held = implementation_->at(unit);
  if (held.uses == 0) {
    throw ContractError(fmt::format("weights of unit {}: the unit is sharded; unshard it first", held.name));
  }
  return held.weights;
}

UnitTensors<float>& ShardedModel::gradients(std::size_t unit) {
  return implementation_->gradients(unit);
}
void ShardedModel::begin_step() {
  implementation_->begin_step();
}
void ShardedModel::begin_pass() {
  implementation_->begin_pass();
}
void ShardedModel::reduce(std::size_t unit) {
  implementation_->reduce(unit);
}
const std::vector<ParameterView>& ShardedModel::trainable() const {
  return implementation_->trainable_views;
}
const std::vector<ParameterView>& ShardedModel::resident() const {
  return implementation_->resident_views;
}
void ShardedModel::weights_changed() {
  implementation_->weights_changed();
}
void ShardedModel::set_unit_step(std::function<void(std::size_t)> step) {
  require(implementation_->options.step_in_backward, "set_unit_step: expected a model with step_in_backward");
  implementation_->step_unit = std::move(step);
}
void ShardedModel::finish_unit_steps() {
  implementation_->finish_unit_steps();
}
std::vector<double> ShardedModel::gradient_square_sums() const {
  return implementation_->gradient_square_sums();
}
void ShardedModel::complete() {
  implementation_->complete();
}
void ShardedModel::set_prefetch(std::size_t unit, Phase phase, std::vector<std::size_t> next) {
  implementation_->set_prefetch(unit, phase, std::move(next));
}
TransferTimes ShardedModel::transfer_times() const {
  return implementation_->times;
}
MemoryUse ShardedModel::memory() const {
  return implementation_->memory();
}
void ShardedModel::poll() {
  implementation_->poll();
}
bool ShardedModel::gradients_ready() const {
  return implementation_->gradients_ready();
}

}  // namespace matrixfsdp
