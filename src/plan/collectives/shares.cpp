#include "plan/collectives/shares.hpp"

#include <algorithm>

namespace matrixfsdp::detail {

std::vector<std::int64_t> water_fill(int world_size, std::int64_t total, std::int64_t most,
                                     const std::function<std::int64_t(int, std::int64_t)>& share) {
  const auto shares_at = [&](std::int64_t level) {
    std::vector<std::int64_t> shares(static_cast<std::size_t>(world_size));
    for (int rank = 0; rank < world_size; ++rank)
      shares[static_cast<std::size_t>(rank)] = std::min(share(rank, level), total);
    return shares;
  };
  const auto sum_of = [total](const std::vector<std::int64_t>& shares) {
    std::int64_t sum = 0;
    for (const std::int64_t one : shares)
      sum += std::min(one, total - std::min(sum, total));  // does not overflow; enough is enough
    return sum;
  };
  std::int64_t low = 0;
  std::int64_t high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (sum_of(shares_at(middle)) < total)
      low = middle + 1;
    else
      high = middle;
  }
  std::vector<std::int64_t> shares = shares_at(low);
  std::int64_t left = total;
  for (std::int64_t& one : shares) {
    one = std::min(one, left);
    left -= one;
  }
  return shares;
}

std::vector<std::int64_t> shard_sizes(const SegmentTable& table) {
  std::vector<std::int64_t> sizes(table.intervals.size());
  for (std::size_t rank = 0; rank < sizes.size(); ++rank)
    sizes[rank] = table.shard_size(static_cast<int>(rank));
  return sizes;
}

std::vector<Piece> deal(const SegmentTable& table, const std::vector<std::int64_t>& shares) {
  std::vector<Piece> pieces;
  std::vector<Piece> rest;
  std::vector<std::int64_t> room = shares;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const int owner = static_cast<int>(rank);
    for (const Interval& interval : table.intervals[rank]) {
      if (interval.empty()) continue;
      const Interval own{interval.begin, interval.begin + std::min(interval.size(), room[rank])};
      if (!own.empty()) pieces.push_back({own, owner, owner});
      if (own.end < interval.end) rest.push_back({{own.end, interval.end}, owner, owner});
      room[rank] -= own.size();
    }
  }
  std::size_t helper = 0;
  for (Piece piece : rest) {
    while (!piece.elements.empty()) {
      while (room[helper] == 0)
        ++helper;
      const std::int64_t taken = std::min(room[helper], piece.elements.size());
      pieces.push_back({{piece.elements.begin, piece.elements.begin + taken}, piece.owner, static_cast<int>(helper)});
      room[helper] -= taken;
      piece.elements.begin += taken;
    }
  }
  return pieces;
}

// Rank r, which owns o and relays c >= 0, sends o + c (W - 2): of its own elements it sends x itself to W - 1 ranks and
// o - x once, to helpers; of others' it sends c - x to W - 2 ranks.
std::vector<std::int64_t> relay_shares(const SegmentTable& table) {
  const int world_size = static_cast<int>(table.intervals.size());
  validate(table, world_size);
  std::vector<std::int64_t> owned = shard_sizes(table);
  if (world_size <= 2 || table.size == 0) return owned;
  // The share at which rank r sends `level`.
  const std::int64_t others = world_size - 2;
  const auto share = [&](int rank, std::int64_t level) {
    return std::max<std::int64_t>(0, (level - owned[static_cast<std::size_t>(rank)]) / others);
  };
  // At the level P + P / W (W - 2), and a remainder, even a rank that owns everything has room for P / W.
  const std::int64_t most = table.size + (table.size / world_size + 1) * others;
  return water_fill(world_size, table.size, most, share);
}

}  // namespace matrixfsdp::detail
