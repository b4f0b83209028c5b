#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp::detail {

/// Sizes of shares that sum to `total`: share(r, T) for the smallest T at which there is room for all, less what is too
/// much, taken from the last ranks. `share` does not fall as T grows, and for T = `most` has room for `total`.
std::vector<std::int64_t> water_fill(int world_size, std::int64_t total, std::int64_t most,
                                     const std::function<std::int64_t(int rank, std::int64_t level)>& share);

/// Elements that each rank owns.
std::vector<std::int64_t> shard_sizes(const SegmentTable& table);

/// Cuts a table's segments into pieces: rank r works on shares[r] elements, its own first (from the beginning of its
/// shard); what owners leave goes to the ranks that still have room, both in rank order.
std::vector<Piece> deal(const SegmentTable& table, const std::vector<std::int64_t>& shares);

/// How many elements each rank relays to all others by `scatter`, so that the most that any rank sends is as small as
/// can be. They sum to table.size.
std::vector<std::int64_t> relay_shares(const SegmentTable& table);

}  // namespace matrixfsdp::detail
