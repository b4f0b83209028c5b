#include "plan/window.hpp"

#include <algorithm>

#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

namespace matrixfsdp::detail {
namespace {

/// Over some units: how many, their elements, and the largest one's.
struct Extent {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  std::int64_t largest = 0;

  void add(std::int64_t elements) {
    ++count;
    sum += elements;
    largest = std::max(largest, elements);
  }
};

/// Of one rank: what it sums for others, and the staging of it.
struct Sums {
  std::int64_t total = 0;
  std::int64_t most = 0;
  std::int64_t staging = 0;  ///< bytes

  void add(const Reduce& reduce, int rank) {
    const std::int64_t elements = running_sum_elements(reduce, rank);
    total += elements;
    most = std::max(most, elements);
    staging = std::max(staging, reduce_staging_bytes(reduce, rank));
  }
};

}  // namespace

std::vector<std::int64_t> window_bytes(const ModelSpec& model, const Plan& plan, const MemoryOptions& options) {
  Extent weights;
  Extent kept_weights;
  Extent gradients;
  Extent kept_gradients;
  const std::vector<UnitPolicy> policies = resolve(options.policies, model, plan.world_size);
  const int ranks = plan.world_size * options.replicas;
  const Topology topology = options.topology.node.empty() ? make_topology(ranks, ranks) : options.topology;
  const bool whole = plan.world_size == 1 || plan.replicated;
  const bool rows = plan.row_shards && !whole;
  std::vector<Sums> sums(static_cast<std::size_t>(plan.world_size));
  std::vector<std::int64_t> held(sums.size(), 0);  // from forward to backward, besides shards
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const bool keep = model.units[u].keep;
    if ((!whole && !options.resident_weights) || policies[u].param_dtype != DType::float32)
      (keep || policies[u].reshard_to == 1 ? kept_weights : weights).add(plan.units[u].weights.size);
    (keep ? kept_gradients : gradients).add(plan.units[u].gradients.size);
    const UnitAlgorithms algorithms = options.collectives.empty() ? UnitAlgorithms{} : options.collectives[u];
    const Reduce reduce =
        prepare_reduce(plan, u, topology,
                       {options.unsharded_accumulation ? 1 : options.passes, policies[u].reduce_dtype, options.sum_group},
                       algorithms.reduce);
    for (int rank = 0; rank < plan.world_size; ++rank) {
      sums[static_cast<std::size_t>(rank)].add(reduce, rank);
      if (policies[u].reshard_to > 1)
        held[static_cast<std::size_t>(rank)] +=
            fold_chunk(plan.units[u].weights.size, rank % static_cast<int>(policies[u].reshard_to),
                       static_cast<int>(policies[u].reshard_to))
                .size();
    }
  }
  const std::int64_t in_flight = plan.world_size * options.replicas > 1 ? options.reduces_in_flight : 0;
  const std::int64_t reduces = std::max<std::int64_t>(1, in_flight);
  // What is copied out, and in, needs one buffer of each kind; what travels the others.
  const std::int64_t slots = std::min<std::int64_t>(rows ? 1 : options.prefetch + 1, weights.count);
  const std::int64_t buffers = std::min<std::int64_t>(rows ? 1 : in_flight + 1, gradients.count);
  std::int64_t elements = kept_weights.sum + slots * weights.largest;
  elements += kept_gradients.sum + (options.unsharded_accumulation ? gradients.sum : buffers * gradients.largest);
  if (rows) {
    elements += landing_slots(options.prefetch, plan.units.size()) * std::max(weights.largest, kept_weights.largest);
    elements += reduces * std::max(gradients.largest, kept_gradients.largest);
  }
  const bool keep_sums = options.passes > 1 && !options.unsharded_accumulation;
  std::vector<std::int64_t> bytes;
  bytes.reserve(sums.size());
  for (std::size_t r = 0; r < sums.size(); ++r) {
    const Sums& rank = sums[r];
    bytes.push_back(4 * (elements + held[r] + (keep_sums ? rank.total : reduces * rank.most)) + reduces * rank.staging);
  }
  return bytes;
}

}  // namespace matrixfsdp::detail
