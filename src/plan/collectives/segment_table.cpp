#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/segment_table.hpp>

namespace matrixfsdp {

SegmentTable segment_table(const MatrixShard& shard) {
  SegmentTable table;
  table.size = shard.size;
  table.intervals.reserve(shard.owned.size());
  for (std::size_t rank = 0; rank < shard.owned.size(); ++rank)
    table.intervals.push_back({shard.owned[rank], shard.tails[rank]});
  return table;
}

SegmentTable even_table(std::int64_t size, int world_size) {
  if (size < 0 || world_size < 1) {
    throw ContractError(
        fmt::format("even_table: size {}, {} ranks: expected size >= 0 and ranks >= 1", size, world_size));
  }
  SegmentTable table;
  table.size = size;
  table.intervals.resize(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank)
    table.intervals[static_cast<std::size_t>(rank)][0] = fold_chunk(size, rank, world_size);
  return table;
}

void validate(const SegmentTable& table, int world_size) {
  if (table.intervals.size() != static_cast<std::size_t>(world_size)) {
    throw ContractError(fmt::format("the segment table has {} ranks: expected {}", table.intervals.size(), world_size));
  }
  std::vector<Interval> all;
  all.reserve(2 * table.intervals.size());
  for (const auto& intervals : table.intervals) {
    for (const Interval& interval : intervals) {
      if (interval.size() != 0) all.push_back(interval);
    }
  }
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t position = 0;
  for (const Interval& interval : all) {
    if (interval.begin != position || interval.end < interval.begin) {
      throw ContractError(fmt::format("the segment table has an interval [{}, {}): expected one that begins at {}",
                                      interval.begin, interval.end, position));
    }
    position = interval.end;
  }
  if (position != table.size)
    throw ContractError(fmt::format("the segment table covers [0, {}): expected [0, {})", position, table.size));
}

}  // namespace matrixfsdp
