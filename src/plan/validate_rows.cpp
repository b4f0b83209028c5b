#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "plan/layout.hpp"

namespace matrixfsdp::detail {
namespace {

bool same(const Segment& a, const Segment& b) {
  return a.parameter == b.parameter && a.elements == b.elements && a.rank == b.rank && a.offset == b.offset;
}

std::string text(const UnitSpec& unit, const MatrixShard& shard, std::size_t index) {
  if (index >= shard.segments.size()) return "no segment";
  const Segment& segment = shard.segments[index];
  const std::string name = segment.parameter < unit.parameters.size() ? unit.parameters[segment.parameter].name
                                                                      : fmt::format("parameter {}", segment.parameter);
  return fmt::format("[{}, {}) of {} on rank {} at {}", segment.elements.begin, segment.elements.end, name,
                     segment.rank, segment.offset);
}

void require_same(const UnitSpec& unit, const MatrixShard& found, const MatrixShard& expected, const char* what) {
  for (std::size_t i = 0; i < std::max(found.segments.size(), expected.segments.size()); ++i) {
    const bool both = i < found.segments.size() && i < expected.segments.size();
    if (both && same(found.segments[i], expected.segments[i])) continue;
    throw ContractError(fmt::format("plan of unit {}, {}: {}, expected the row shard {}", unit.name, what,
                                    text(unit, found, i), text(unit, expected, i)));
  }
  if (found.size != expected.size || found.parameter_offsets != expected.parameter_offsets ||
      found.owned != expected.owned || found.tails != expected.tails) {
    throw ContractError(fmt::format(
        "plan of unit {}, {}: size {}, offsets or intervals of another layout, expected those of row shards, size {}",
        unit.name, what, found.size, expected.size));
  }
}

}  // namespace

void validate_rows(const UnitSpec& unit, const UnitPlan& plan, int world_size) {
  const UnitPlan expected = lay_out_rows(unit, world_size);
  require_same(unit, plan.weights, expected.weights, "weights");
  require_same(unit, plan.gradients, expected.gradients, "gradients");
}

}  // namespace matrixfsdp::detail
