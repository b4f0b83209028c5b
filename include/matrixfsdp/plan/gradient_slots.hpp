#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/plan.hpp>

/// Where gradients land when units are stepped in backward: a unit's gradient is needed from the begin of its last
/// reduce to its step, so that few units need storage at once.
namespace matrixfsdp {

/// Units are reduced from the last one to unit 0; each takes the slot after that of the one before, and finds it free:
/// reduces_in_flight gradients land while one is stepped. `units` >= 1, `reduces_in_flight` >= 0.
std::size_t gradient_slot(std::size_t unit, std::size_t units, std::int64_t reduces_in_flight);

/// Elements of each slot on `rank`: the most that a unit lands there.
std::vector<std::int64_t> gradient_slots(const Plan& plan, int rank, std::int64_t reduces_in_flight);

/// Elements of gradients that `rank` holds of one unit: its segments, or all of them where the plan is replicated or
/// for one rank.
std::int64_t gradient_elements(const Plan& plan, std::size_t unit, int rank);

}  // namespace matrixfsdp
