#pragma once

#include <vector>

#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp::detail {

/// An interval of a tail on its rank.
struct TailPart {
  std::size_t parameter = 0;
  Interval elements;
  int rank = 0;
};

/// Where one unit's elements go, before offsets are known.
struct UnitAssignment {
  struct Owned {
    std::size_t parameter = 0;
    int rank = 0;
  };
  std::vector<Owned> matrices;
  std::vector<TailPart> tails;  ///< in buffer order: ranks do not decrease, parts of a parameter follow one another
};

/// Both buffers of a unit: matrices by owning rank and then by parameter, then the tails as they are listed.
UnitPlan lay_out(const UnitSpec& unit, UnitAssignment assignment, int world_size);

/// The unit's buffers in parameter order, with the fold's chunks as intervals.
UnitPlan lay_out_replicated(const UnitSpec& unit, int world_size);

/// The unit's buffers by rank and then by parameter, every parameter cut by rows (see row_shards.hpp).
UnitPlan lay_out_rows(const UnitSpec& unit, int world_size);

/// Throws ContractError, which names the first segment that differs, unless `plan` is lay_out_rows of the unit.
void validate_rows(const UnitSpec& unit, const UnitPlan& plan, int world_size);

}  // namespace matrixfsdp::detail
