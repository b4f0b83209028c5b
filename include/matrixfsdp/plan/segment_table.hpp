#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp {

/// For each rank, its (at most two) intervals of a flat buffer, in buffer order. A rank's shard is its first interval
/// followed by its second. Intervals of different ranks do not overlap; together they cover [0, size).
struct SegmentTable {
  std::int64_t size = 0;                           ///< elements
  std::vector<std::array<Interval, 2>> intervals;  ///< of each rank; empty ones where it has fewer than two

  /// Elements of `rank`, which is one of the table's (unchecked).
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    const auto& mine = intervals[static_cast<std::size_t>(rank)];
    return mine[0].size() + mine[1].size();
  }
};

/// The table of a unit's layout.
SegmentTable segment_table(const MatrixShard& shard);

/// The even cut as a table: rank r has fold_chunk(size, r, W). Throws ContractError for size < 0 or world_size < 1.
SegmentTable even_table(std::int64_t size, int world_size);

/// Throws ContractError unless `table` has an entry for each of `world_size` ranks and its intervals cut [0, size)
/// without gap or overlap.
void validate(const SegmentTable& table, int world_size);

}  // namespace matrixfsdp
