#include <algorithm>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp {
namespace {

template <class Predict>
CollectiveChoice fastest(std::initializer_list<CollectiveAlgorithm> candidates, const Predict& seconds_of) {
  std::vector<CollectiveChoice> predicted;
  double least = std::numeric_limits<double>::infinity();
  for (const CollectiveAlgorithm candidate : candidates) {
    predicted.push_back({candidate, seconds_of(candidate)});
    least = std::min(least, predicted.back().seconds);
  }
  return *std::find_if(predicted.begin(), predicted.end(),
                       [least](const CollectiveChoice& one) { return one.seconds <= collective_tie * least; });
}

}  // namespace

CollectiveChoice choose_unshard(const SegmentTable& table, const Topology& topology, const CollectiveProfile& profile,
                                std::int64_t block_elements) {
  using enum CollectiveAlgorithm;
  return fastest({direct, scatter, chain, hierarchical, tree}, [&](CollectiveAlgorithm algorithm) {
    return predicted_unshard_seconds(algorithm, table, topology, profile, block_elements);
  });
}

CollectiveChoice choose_reduce(const SegmentTable& table, const Topology& topology, const CollectiveProfile& profile,
                               const ReduceSettings& settings) {
  using enum CollectiveAlgorithm;
  return fastest({scatter, direct, chain, hierarchical, tree}, [&](CollectiveAlgorithm algorithm) {
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
