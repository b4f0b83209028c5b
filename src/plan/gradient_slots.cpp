#include <algorithm>

#include <matrixfsdp/plan/gradient_slots.hpp>

namespace matrixfsdp {

std::size_t gradient_slot(std::size_t unit, std::size_t units, std::int64_t reduces_in_flight) {
  const std::size_t slots = std::min(units, static_cast<std::size_t>(reduces_in_flight) + 1);
  return (units - 1 - unit) % slots;
}

std::vector<std::int64_t> gradient_slots(const Plan& plan, int rank, std::int64_t reduces_in_flight) {
  const std::size_t units = plan.units.size();
  std::vector<std::int64_t> slots(std::min(units, static_cast<std::size_t>(reduces_in_flight) + 1), 0);
  for (std::size_t u = 0; u < units; ++u) {
    std::int64_t& slot = slots[gradient_slot(u, units, reduces_in_flight)];
    slot = std::max(slot, gradient_elements(plan, u, rank));
  }
  return slots;
}

std::int64_t gradient_elements(const Plan& plan, std::size_t unit, int rank) {
  const MatrixShard& gradients = plan.units[unit].gradients;
  return plan.replicated || plan.world_size == 1 ? gradients.size : gradients.shard_size(rank);
}

}  // namespace matrixfsdp
