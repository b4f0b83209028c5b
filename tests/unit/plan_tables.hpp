#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/segment_table.hpp>

namespace matrixfsdp::test {

/// Rank r owns owned[r] elements, one rank after the other.
inline SegmentTable owners(const std::vector<std::int64_t>& owned) {
  SegmentTable table;
  for (const std::int64_t elements : owned) {
    table.intervals.push_back({Interval{table.size, table.size + elements}, Interval{}});
    table.size += elements;
  }
  return table;
}

}  // namespace matrixfsdp::test
