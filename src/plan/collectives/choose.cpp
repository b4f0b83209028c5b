#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/collectives/node_places.hpp"

namespace matrixfsdp {
namespace {

template <class Predict>
CollectiveChoice fastest(const std::vector<CollectiveAlgorithm>& candidates, const Predict& seconds_of) {
  std::vector<CollectiveChoice> predicted;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm candidate : candidates) {
    predicted.push_back({candidate, seconds_of(candidate)});
    least = std::min(least, predicted.back().seconds);
  }
  return *std::find_if(predicted.begin(), predicted.end(),
                       [least](const CollectiveChoice& one) { return one.seconds <= collective_tie * least; });
}

/// Trees are counted edge by edge, one tree for each owner: 4096 ranks that own and receive.
constexpr std::int64_t most_tree_edges = std::int64_t{1} << 24;

std::int64_t owners_of(const SegmentTable& table) {
  std::int64_t owners = 0;
  for (int rank = 0; rank < static_cast<int>(table.intervals.size()); ++rank)
    owners += table.shard_size(rank) > 0 ? 1 : 0;
  return owners;
}

/// Several nodes, and several ranks on one of them.
bool has_groups(const Topology& topology) {
  const detail::NodePlaces places(topology);
  return places.nodes() > 1 && places.nodes() < topology.world_size();
}

}  // namespace

std::vector<CollectiveAlgorithm> collective_candidates(CollectiveOperation operation, const SegmentTable& table,
                                                       const Topology& topology) {
  using enum CollectiveAlgorithm;
  const bool unshards = operation == CollectiveOperation::unshard;
  std::vector<CollectiveAlgorithm> candidates{scatter, direct};
  if (unshards) std::swap(candidates[0], candidates[1]);
  const auto ranks = static_cast<std::int64_t>(table.intervals.size());
  const bool large = unshards && owners_of(table) * ranks > most_tree_edges;
  if (!large && has_groups(topology)) candidates.push_back(hierarchical);
  candidates.push_back(chain);
  if (!large) candidates.push_back(tree);
  return candidates;
}

CollectiveChoice choose_unshard(const SegmentTable& table, const Topology& topology, const CollectiveProfile& profile,
                                std::optional<std::int64_t> block_elements) {
  return fastest(collective_candidates(CollectiveOperation::unshard, table, topology),
                 [&](CollectiveAlgorithm algorithm) {
                   return predicted_unshard_seconds(algorithm, table, topology, profile, block_elements);
                 });
}

CollectiveChoice choose_reduce(const SegmentTable& table, const Topology& topology, const CollectiveProfile& profile,
                               const ReduceSettings& settings) {
  return fastest(collective_candidates(CollectiveOperation::reduce, table, topology),
                 [&](CollectiveAlgorithm algorithm) {
                   return predicted_reduce_step_seconds(algorithm, table, topology, profile, settings);
                 });
}

std::vector<UnitCollectives> choose_collectives(const Plan& plan, const Topology& topology,
                                                const CollectiveProfile& profile, const ReduceSettings& settings) {
  if (topology.world_size() < plan.world_size || topology.world_size() % plan.world_size != 0) {
    throw ContractError(
        fmt::format("collectives of a plan for {} ranks: the topology has {}: expected whole shard groups",
                    plan.world_size, topology.world_size()));
  }
  const Topology group = topology_of(topology, {0, plan.world_size});
  std::vector<UnitCollectives> choices;
  choices.reserve(plan.units.size());
  for (const UnitPlan& unit : plan.units) {
    const SegmentTable chunks = even_table(unit.gradients.size, plan.world_size);
    const SegmentTable weights = plan.replicated ? chunks : segment_table(unit.weights);
    const SegmentTable gradients = plan.replicated ? chunks : segment_table(unit.gradients);
    choices.push_back({choose_unshard(weights, group, profile), choose_reduce(gradients, topology, profile, settings)});
  }
  return choices;
}

}  // namespace matrixfsdp
