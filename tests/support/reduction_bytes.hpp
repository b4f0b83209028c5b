#pragma once

#include <cstddef>
#include <cstdint>

#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp::testing {

/// What one exchange of all units sends, and one gather to owners, over all ranks.
struct ReductionBytes {
  std::int64_t exchange = 0;
  std::int64_t to_owners = 0;
};

inline ReductionBytes reduction_bytes(const Plan& plan) {
  ReductionBytes bytes;
  const int ranks = plan.world_size;
  for (const UnitPlan& unit : plan.units) {
    const MatrixShard& layout = unit.gradients;
    bytes.exchange += 4 * layout.size * (ranks - 1);
    for (int holder = 0; holder < ranks; ++holder) {
      const Interval chunk = fold_chunk(layout.size, holder, ranks);
      const auto h = static_cast<std::size_t>(holder);
      bytes.to_owners +=
          4 * (chunk.size() - intersect(chunk, layout.owned[h]).size() - intersect(chunk, layout.tails[h]).size());
    }
  }
  return bytes;
}

}  // namespace matrixfsdp::testing
