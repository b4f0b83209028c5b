#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/time_model.hpp>

#include "plan/time/optimizer.hpp"
#include "plan/time/transfers.hpp"

namespace matrixfsdp {
namespace {

constexpr double float32_bytes = 4;
constexpr double bfloat16_bytes = 2;

double bytes_of(DType dtype, bool master_weights) {
  return master_weights && dtype == DType::float32 ? float32_bytes : bfloat16_bytes;
}

/// Where a unit's weights are between uses.
bool shards_weights(StrategyKind kind) {
  return kind != StrategyKind::zero1_owner && kind != StrategyKind::ddp;
}

/// How a unit's buffer is cut: as the plan says, or evenly, which row shards are up to a row.
SegmentTable table_of(StrategyKind kind, const MatrixShard& shard, int world_size) {
  const bool even = has_row_shards(kind) || kind == StrategyKind::ddp;
  return even ? even_table(shard.size, world_size) : segment_table(shard);
}

/// The pace of the slowest.
double most_slowness(const Machine& machine) {
  double most = 1;
  for (const SlowRank& slow : machine.slow_ranks)
    most = std::max(most, slow.factor);
  return most;
}

std::vector<UnitSeconds> unit_seconds(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                      const Machine& machine, const StepOptions& options,
                                      detail::Transfers& transfers) {
  const std::vector<UnitPolicy> policies = resolve(options.cost.memory.policies, model, plan.world_size);
  const std::int64_t passes = options.cost.memory.passes;
  const double rate = machine.gemm_flops_per_second / most_slowness(machine);
  std::vector<UnitSeconds> units(model.units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    UnitSeconds& unit = units[u];
    const double weight_bytes = bytes_of(policies[u].param_dtype, options.master_weights);
    const double gradient_bytes = bytes_of(policies[u].reduce_dtype, options.master_weights);
    const SegmentTable gradients = table_of(kind, plan.units[u].gradients, plan.world_size);
    unit.keep = model.units[u].keep || policies[u].reshard_to == 1;
    unit.forward = static_cast<double>(options.pass.unit_flops[u]) / rate;
    unit.backward = (options.recompute ? 3 : 2) * unit.forward;
    if (shards_weights(kind))
      unit.unshard = transfers.unshard(table_of(kind, plan.units[u].weights, plan.world_size), weight_bytes,
                                       options.unshard_collective);
    unit.reduce = transfers.reduce(gradients, gradient_bytes, passes);
    // Sums that all ranks need.
    if (kind == StrategyKind::ddp)
      unit.reduce += transfers.unshard(gradients, gradient_bytes) / static_cast<double>(passes);
  }
  return units;
}

std::int64_t most_of(const std::vector<StrategyLoad>& loads, std::int64_t (*figure)(const StrategyLoad&)) {
  std::int64_t most = 0;
  for (const StrategyLoad& load : loads)
    most = std::max(most, figure(load));
  return most;
}

void add_bytes(const std::vector<StrategyLoad>& loads, const Machine& machine, const StepOptions& options,
               StrategyPrediction& prediction) {
  const std::int64_t parts = options.master_weights ? 1 : 2;
  prediction.bytes_per_rank =
      most_of(loads,
              [](const StrategyLoad& load) { return load.unshard_bytes + load.reduce_bytes + load.optimizer_bytes; }) /
      parts;
  prediction.optimizer_bytes_per_rank =
      most_of(loads, [](const StrategyLoad& load) { return load.optimizer_bytes; }) / parts;
  prediction.memory_bytes =
      (most_of(loads, [](const StrategyLoad& load) { return load.peak_bytes(); }) + options.pass.activation_bytes) /
      parts;
  prediction.fits = static_cast<double>(prediction.memory_bytes) <= machine.memory_bytes;
}

}  // namespace

StrategyPrediction predict_step(StrategyKind kind, const ModelSpec& model, const Plan& plan, const Machine& machine,
                                const StepOptions& options) {
  if (options.pass.unit_flops.size() != model.units.size() || machine.ranks() != plan.world_size) {
    throw ContractError(
        fmt::format("predict_step: FLOPs of {} units and a machine of {} ranks: expected {} and {}, the plan's",
                    options.pass.unit_flops.size(), machine.ranks(), model.units.size(), plan.world_size));
  }
  if (options.links && (options.links->world_size != plan.world_size || options.links->nodes != machine.nodes)) {
    throw ContractError(fmt::format("predict_step: links of {} ranks on {} nodes: expected {} on {}, the machine's",
                                    options.links->world_size, options.links->nodes, plan.world_size, machine.nodes));
  }
  detail::Transfers transfers(machine, options.links);
  const std::vector<StrategyLoad> loads = strategy_loads(kind, model, plan, transfers.topology(), options.cost);
  const MemoryOptions& memory = options.cost.memory;
  const std::vector<UnitSeconds> units = unit_seconds(kind, model, plan, machine, options, transfers);
  const double last =
      static_cast<double>(options.pass.last_flops) * most_slowness(machine) / machine.gemm_flops_per_second;
  const auto passes = static_cast<double>(memory.passes);
  StrategyPrediction prediction;
  prediction.strategy = kind;
  prediction.forward_seconds = passes * forward_seconds(units, last, memory.prefetch);
  prediction.backward_seconds = passes * backward_seconds(units, 2 * last, memory.prefetch);
  prediction.optimizer_seconds = detail::optimizer_seconds(
      kind, model, plan, machine, options, loads, options.master_weights ? float32_bytes : bfloat16_bytes, transfers);
  add_bytes(loads, machine, options, prediction);
  return prediction;
}

}  // namespace matrixfsdp
