#include "plan/window.hpp"

#include <algorithm>

#include <matrixfsdp/plan/collective.hpp>

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
  std::int64_t staging = 0;

  void add(const Reduce& reduce, int rank) {
    const std::int64_t elements = running_sum_elements(reduce, rank);
    total += elements;
    most = std::max(most, elements);
    staging = std::max(staging, reduce_staging_elements(reduce, rank));
  }
};

}  // namespace

std::vector<std::int64_t> window_bytes(const ModelSpec& model, const Plan& plan, const MemoryOptions& options) {
  Extent weights;
  Extent kept_weights;
  Extent gradients;
  Extent kept_gradients;
  std::vector<Sums> sums(static_cast<std::size_t>(plan.world_size));
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const bool keep = model.units[u].keep;
    (keep ? kept_weights : weights).add(plan.units[u].weights.size);
    (keep ? kept_gradients : gradients).add(plan.units[u].gradients.size);
    const UnitAlgorithms algorithms = options.collectives.empty() ? UnitAlgorithms{} : options.collectives[u];
    const Reduce reduce =
        prepare_reduce(plan, u, options.unsharded_accumulation ? 1 : options.passes, algorithms.reduce);
    for (int rank = 0; rank < plan.world_size; ++rank)
      sums[static_cast<std::size_t>(rank)].add(reduce, rank);
  }
  std::int64_t elements = 0;
  if (plan.world_size > 1 && !plan.replicated) {
    elements += std::min<std::int64_t>(std::int64_t{options.prefetch} + 1, weights.count) * weights.largest;
    elements += kept_weights.sum;
  }
  elements += kept_gradients.sum + (options.unsharded_accumulation ? gradients.sum : gradients.largest);
  const bool keep_sums = options.passes > 1 && !options.unsharded_accumulation;
  std::vector<std::int64_t> bytes;
  bytes.reserve(sums.size());
  for (const Sums& rank : sums) {
    bytes.push_back(4 * (elements + (keep_sums ? rank.total : rank.most) + rank.staging));
  }
  return bytes;
}

}  // namespace matrixfsdp::detail
