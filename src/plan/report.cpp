#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/gradient_slots.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "plan/window.hpp"
#include "plan/workload.hpp"

namespace matrixfsdp {
namespace {

constexpr std::int64_t element_bytes = 4;

/// Maximum over mean; 1 where there is nothing.
double imbalance(const std::vector<RankLoad>& ranks, std::int64_t RankLoad::*figure) {
  std::int64_t most = 0;
  double sum = 0;
  for (const RankLoad& rank : ranks) {
    most = std::max(most, rank.*figure);
    sum += static_cast<double>(rank.*figure);
  }
  return sum > 0 ? static_cast<double>(most) * static_cast<double>(ranks.size()) / sum : 1.0;
}

/// max(mean, largest) / mean
double lower_bound(std::int64_t total, std::int64_t largest, int world_size) {
  if (total <= 0) return 1.0;
  return std::max(1.0, static_cast<double>(largest) * world_size / static_cast<double>(total));
}

/// `flops` times elements / of.
std::int64_t flops_of_part(std::int64_t flops, std::int64_t elements, std::int64_t of) {
  if (elements == of) return flops;
  return std::llround(static_cast<double>(flops) * (static_cast<double>(elements) / static_cast<double>(of)));
}

/// What each rank holds of one parameter list, segment by segment.
/// Work on a part of a matrix counts in proportion.
void add_segments(const UnitSpec& unit, const MatrixShard& weights, const OptimizerCost& cost,
                  std::vector<RankLoad>& ranks) {
  for (const Segment& segment : weights.segments) {
    const ParameterSpec& parameter = unit.parameters[segment.parameter];
    RankLoad& rank = ranks[static_cast<std::size_t>(segment.rank)];
    rank.owned_bytes += resident_bytes(parameter, segment.elements.size(), cost);
    if (kind_of(parameter) == ParameterKind::matrix) {
      rank.flops += flops_of_part(step_flops(parameter, cost), segment.elements.size(), element_count(parameter.shape));
      ++rank.matrices;
    } else {
      // A tail's work is the same for each of its elements.
      rank.flops += step_flops(parameter, cost) / element_count(parameter.shape) * segment.elements.size();
    }
  }
}

/// Weights of others that stay on `rank` with resident weights.
std::int64_t other_weight_bytes(const Plan& plan, int rank) {
  std::int64_t elements = 0;
  for (const UnitPlan& unit : plan.units)
    elements += unit.weights.size - unit.weights.shard_size(rank);
  return element_bytes * elements;
}

/// Of gradients that stay for the whole step, and those that stay until their unit is stepped.
std::int64_t gradient_bytes(const Plan& plan, int rank, const MemoryOptions& options, bool in_flight) {
  std::int64_t elements = 0;
  if (in_flight) {
    const bool alone = plan.world_size * options.replicas == 1;
    for (const std::int64_t slot : gradient_slots(plan, rank, alone ? 0 : options.reduces_in_flight))
      elements += slot;
  } else {
    for (std::size_t u = 0; u < plan.units.size(); ++u)
      elements += gradient_elements(plan, u, rank);
  }
  return element_bytes * elements;
}

void count_gradients(const Plan& plan, const MemoryOptions& options, RankLoad& load) {
  const bool one_exchange = options.passes == 1 || options.unsharded_accumulation;
  const std::int64_t all = gradient_bytes(plan, load.rank, options, false);
  load.gradient_bytes = gradient_bytes(plan, load.rank, options, options.step_in_backward && one_exchange);
  load.owned_bytes += load.gradient_bytes - all;
}

}  // namespace

PlanReport report(const ModelSpec& model, const Plan& plan, const MemoryOptions& options) {
  if (options.prefetch < 0 || options.reduces_in_flight < 0 || options.passes < 1) {
    throw ContractError(
        fmt::format("plan report for prefetch {}, {} reduces in flight and {} passes: expected at least 0, 0 and 1",
                    options.prefetch, options.reduces_in_flight, options.passes));
  }
  validate(model, plan);
  if (!options.collectives.empty() && options.collectives.size() != plan.units.size()) {
    throw ContractError(fmt::format("plan report with collectives of {} units: expected none, or {}",
                                    options.collectives.size(), plan.units.size()));
  }
  const detail::Workload workload = detail::make_workload(model, plan.world_size, options.optimizer, false);
  PlanReport result;
  result.replicated_bytes = workload.total.bytes;
  result.ranks.resize(static_cast<std::size_t>(plan.world_size));
  const bool everything = plan.replicated || (plan.row_shards && plan.world_size == 1);  // on every rank
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    result.gamma.push_back(plan.units[u].gamma);
    if (!everything) add_segments(model.units[u], plan.units[u].weights, options.optimizer, result.ranks);
  }
  const std::vector<std::int64_t> window = detail::window_bytes(model, plan, options);
  for (int rank = 0; rank < plan.world_size; ++rank) {
    RankLoad& load = result.ranks[static_cast<std::size_t>(rank)];
    load.rank = rank;
    if (options.resident_weights && !plan.replicated) load.owned_bytes += other_weight_bytes(plan, rank);
    load.window_bytes = window[static_cast<std::size_t>(rank)];
    if (everything) {
      load.owned_bytes = workload.total.bytes;
      load.flops = workload.total.flops;
      load.matrices = static_cast<std::int64_t>(workload.matrices.size());
    }
    if (load.matrices == 0) ++result.spare_ranks;
  }
  result.imbalance_bytes = imbalance(result.ranks, &RankLoad::owned_bytes);
  result.imbalance_flops = imbalance(result.ranks, &RankLoad::flops);
  for (RankLoad& load : result.ranks)
    count_gradients(plan, options, load);
  if (!plan.replicated) {
    result.lower_bound_bytes = lower_bound(workload.total.bytes, workload.largest.bytes, plan.world_size);
    result.lower_bound_flops = lower_bound(workload.total.flops, workload.largest.flops, plan.world_size);
  }
  return result;
}

}  // namespace matrixfsdp
