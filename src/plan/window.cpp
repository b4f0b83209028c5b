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

}  // namespace

std::int64_t window_bytes(const ModelSpec& model, const Plan& plan, int rank, const MemoryOptions& options) {
  Extent weights;
  Extent kept_weights;
  Extent gradients;
  Extent kept_gradients;
  Extent chunks;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const bool keep = model.units[u].keep;
    (keep ? kept_weights : weights).add(plan.units[u].weights.size);
    (keep ? kept_gradients : gradients).add(plan.units[u].gradients.size);
    chunks.add(fold_chunk(plan.units[u].gradients.size, rank, plan.world_size).size());
  }
  const bool alone = plan.world_size == 1;
  const bool keep_sums = options.passes > 1 && !options.unsharded_accumulation;

  std::int64_t elements = 0;
  if (!alone && !plan.replicated) {
    elements += std::min<std::int64_t>(std::int64_t{options.prefetch} + 1, weights.count) * weights.largest;
    elements += kept_weights.sum;
  }
  elements += kept_gradients.sum + (options.unsharded_accumulation ? gradients.sum : gradients.largest);
  if (!alone) elements += keep_sums ? chunks.sum : chunks.largest;
  elements += (plan.world_size - 1) * std::min(2 * exchange_block, chunks.largest);
  return 4 * elements;
}

}  // namespace matrixfsdp::detail
