#pragma once

#include <cstddef>
#include <cstdint>

#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp::testing {

/// What one exchange of all units sends, and one gather to owners, over all ranks.
struct ReductionBytes {
  std::int64_t exchange = 0;
  std::int64_t to_owners = 0;
};

inline ReductionBytes reduction_bytes(const Plan& plan, std::int64_t passes) {
  ReductionBytes bytes;
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    bytes.exchange += 4 * plan.units[unit].gradients.size * (plan.world_size - 1);
    const Reduce reduce = prepare_reduce(plan, unit, passes);
    for (int rank = 0; rank < plan.world_size; ++rank)
      bytes.to_owners += 4 * running_sum_elements(reduce, rank);
  }
  return bytes;
}

}  // namespace matrixfsdp::testing
