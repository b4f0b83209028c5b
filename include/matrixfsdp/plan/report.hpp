#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/plan.hpp>
#include <matrixfsdp/plan/topology.hpp>
#include <matrixfsdp/plan/unit_policy.hpp>

namespace matrixfsdp {

/// What the runtime keeps besides the shards. The prediction is exact: ShardedModel::memory() counts the same bytes.
struct MemoryOptions {
  std::int64_t prefetch = 1;           ///< units unsharded ahead of the one that computes
  std::int64_t reduces_in_flight = 1;  ///< reduces under way while the rank computes on
  std::int64_t passes = 1;             ///< more than one: running sums of the fold's chunks stay between passes
  /// Passes are summed in a full gradient on each rank (Accumulation::unsharded), exchanged once.
  bool unsharded_accumulation = false;
  int replicas = 1;       ///< shard groups: ranks may have others to wait for even where the plan is for one
  UnitPolicies policies;  ///< bfloat16 halves the reduce's staging, and needs storage even where weights are resident
  /// State and work of matrices and tails.
  OptimizerCost optimizer;
  std::vector<UnitAlgorithms> collectives;  ///< per unit; empty: reduce by scatter
  bool resident_weights = false;            ///< all weights stay on every rank (zero1-owner)
  std::int64_t sum_group = 1;               ///< micro-batches whose gradients are summed first
  /// Units are stepped in backward: where gradients are exchanged once a step (one pass, or unsharded_accumulation)
  /// only those of units in flight have memory. Of matrix-fsdp alone, see ShardedModelOptions.
  bool step_in_backward = false;
  Topology topology;  ///< of all ranks of all shard groups; empty: they share a node. Figures are of the first group
};

/// What one rank holds and does.
struct RankLoad {
  /// Of the plan.
  int rank = 0;
  std::int64_t owned_bytes = 0;     ///< weights, gradients and optimizer state of its segments
  std::int64_t gradient_bytes = 0;  ///< of these, gradients: of all its segments, or of units in flight
  std::int64_t flops = 0;           ///< of one optimizer step
  std::int64_t matrices = 0;        ///< matrix parameters owned
  std::int64_t window_bytes = 0;    ///< unsharded units, gradient buffers, exchange staging, running sums
};

/// What report() finds. An imbalance of 1 is an even spread.
struct PlanReport {
  /// One for each rank of the plan, by rank.
  std::vector<RankLoad> ranks;
  double imbalance_bytes = 1;  ///< maximum over mean of owned_bytes, with gradients of all segments
  double imbalance_flops = 1;  ///< maximum over mean of flops
  double lower_bound_bytes =
      1;  ///< no placement of whole matrices has a smaller maximum over mean: max(mean, largest)/mean
  /// The same of flops.
  double lower_bound_flops = 1;
  std::vector<double> gamma;          ///< per unit
  std::int64_t replicated_bytes = 0;  ///< weights, gradients and state of the whole model: what full replication needs
  int spare_ranks = 0;                ///< ranks that own no matrix
};

/// What `plan` costs each rank. Throws ContractError for a plan that does not fit the model (see validate), a negative
/// prefetch or reduces_in_flight, less than one pass, or collectives of another number of units; otherwise as resolve
/// (of policies) and step_flops.
PlanReport report(const ModelSpec& model, const Plan& plan, const MemoryOptions& options);

/// A table for people: planner, W, imbalance beside its lower bound, a line per rank (at most `lines`).
std::string to_text(const ModelSpec& model, const Plan& plan, const PlanReport& report, int lines = 16);

}  // namespace matrixfsdp
