#include "comm/table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {
namespace {

__extension__ typedef __int128 int128;

std::int64_t even_boundary(std::int64_t size, int rank, int world_size) {
  return static_cast<std::int64_t>(static_cast<int128>(size) * rank / world_size);
}

}  // namespace

Interval even_chunk(std::int64_t size, int rank, int world_size) {
  return {even_boundary(size, rank, world_size), even_boundary(size, rank + 1, world_size)};
}

SegmentTable even_table(std::int64_t size, int world_size) {
  if (size < 0 || world_size < 1) {
    throw ContractError(
        fmt::format("even_table: size {}, {} ranks: expected size >= 0 and ranks >= 1", size, world_size));
  }
  SegmentTable table;
  table.size = size;
  table.intervals.resize(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    table.intervals[static_cast<std::size_t>(rank)][0] = even_chunk(size, rank, world_size);
  }
  return table;
}

std::int64_t fold_exchange_staging_bytes(std::int64_t size, int rank, int world_size) {
  const std::int64_t chunk = even_chunk(size, rank, world_size).size();
  return 4 * (world_size - 1) * std::min(2 * exchange_block, chunk);
}

void require_valid(const SegmentTable& table, int world_size, const OperationLabel& label) {
  if (table.intervals.size() != static_cast<std::size_t>(world_size)) {
    throw ContractError(fmt::format("{}: the segment table has {} ranks: expected {}", to_string(label),
                                    table.intervals.size(), world_size));
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
      throw ContractError(fmt::format("{}: the segment table has an interval [{}, {}): expected one that begins at {}",
                                      to_string(label), interval.begin, interval.end, position));
    }
    position = interval.end;
  }
  if (position != table.size) {
    throw ContractError(
        fmt::format("{}: the segment table covers [0, {}): expected [0, {})", to_string(label), position, table.size));
  }
}

void require_elements(const char* what, std::int64_t count, std::int64_t expected, const OperationLabel& label) {
  if (count != expected) {
    throw ContractError(fmt::format("{}: {} has {} elements: expected {}", to_string(label), what, count, expected));
  }
}

}  // namespace matrixfsdp
