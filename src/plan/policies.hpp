#pragma once

#include <vector>

#include "plan/workload.hpp"

namespace matrixfsdp::detail {

/// The policies place matrices; `base` is what the ranks carry already (large packed tails). Ties go to the lowest
/// index, so the result is the same everywhere.

/// Policy::role: unit by unit, the largest matrix first, to the rank with the fewest bytes; ranks that hold no matrix
/// of the unit yet are preferred while there is one for each.
Assignment assign_by_role(const Workload& workload, const std::vector<Load>& base);

/// Policy::scope: all matrices, the largest first, to the rank with the fewest bytes (LPT; Graham 1969).
Assignment assign_by_scope(const Workload& workload, const std::vector<Load>& base);

/// Policy::balanced: see assign_balanced.cpp.
Assignment assign_balanced(const Workload& workload, const std::vector<Load>& base);

/// Elements of matrices that one rank may hold of each unit. A unit that has a rank for each matrix has no such limit:
/// there no two of its matrices may share a rank.
using UnitLimits = std::vector<std::int64_t>;

/// Local search: while it lowers the heavier of two ranks, of which one is the heaviest of all, exchanges up to two
/// matrices for up to two (or none), or everything that the two hold of one unit. Keeps `limits`. Deterministic, and
/// bounded in work.
void refine(const Workload& workload, const UnitLimits& limits, Assignment& assignment);

}  // namespace matrixfsdp::detail
