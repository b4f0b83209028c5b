#pragma once

#include <cstddef>
#include <cstdint>

#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp::testing {

/// What one exchange of all units' gradients sends, as `wire`, and one gather of sums to owners, over all ranks.
struct ReductionBytes {
  std::int64_t exchange = 0;
  std::int64_t to_owners = 0;
};

inline ReductionBytes reduction_bytes(const Plan& plan, std::int64_t passes, DType wire = DType::float32) {
  ReductionBytes bytes;
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    bytes.exchange +=
        static_cast<std::int64_t>(size_of(wire)) * plan.units[unit].gradients.size * (plan.world_size - 1);
    const Reduce reduce = prepare_reduce(plan, unit, make_topology(plan.world_size, 1), {passes, wire, 1});
    for (int rank = 0; rank < plan.world_size; ++rank)
      bytes.to_owners += 4 * running_sum_elements(reduce, rank);
  }
  return bytes;
}

}  // namespace matrixfsdp::testing
