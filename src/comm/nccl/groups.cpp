#include "comm/nccl/groups.hpp"

#include <algorithm>
#include <cstddef>

#include "comm/mpi/segment_pace.hpp"

namespace matrixfsdp::nccl {
namespace {

constexpr std::int64_t least_broadcast = 256 * 1024;  ///< bytes of a buffer

}  // namespace

std::vector<Group> make_groups(int rank, const MessagesByPeer& to, const MessagesByPeer& from, int most_operations) {
  const int size = static_cast<int>(to.size());
  const auto most = static_cast<std::size_t>(most_operations);
  std::size_t longest = 0;
  for (std::size_t peer = 0; peer < to.size(); ++peer)
    longest = std::max({longest, to[peer].size(), from[peer].size()});
  std::vector<Group> groups;
  for (std::size_t m = 0; m < longest; ++m) {
    for (int distance = 1; distance < size; ++distance) {
      const int ahead = (rank + distance) % size;
      const int behind = (rank + size - distance) % size;
      const auto& sends = to[static_cast<std::size_t>(ahead)];
      const auto& receives = from[static_cast<std::size_t>(behind)];
      if (groups.empty() || groups.back().size() + 2 > most) groups.emplace_back();
      if (m < sends.size()) groups.back().push_back({true, ahead, sends[m]});
      if (m < receives.size()) groups.back().push_back({false, behind, receives[m]});
    }
  }
  return groups;
}

std::vector<OwnersPart> parts_for_owner(const Reduce& reduce, int holder, int owner) {
  const auto& owned = reduce.table.intervals[static_cast<std::size_t>(owner)];
  std::vector<OwnersPart> parts;
  std::int64_t sum = 0;
  for (const Piece& block : reduce.held_by(holder)) {
    const bool own = block.owner == holder;
    const std::int64_t next = sum;
    if (!own) sum += block.elements.size();
    if (block.owner != owner || block.elements.empty()) continue;
    const std::int64_t shard = mpi::shard_position(owned, block.elements.begin);
    const std::int64_t first = own ? shard : next;
    OwnersPart* last = parts.empty() ? nullptr : &parts.back();
    if (last != nullptr && last->sum + last->elements == first && last->shard + last->elements == shard)
      last->elements += block.elements.size();
    else
      parts.push_back({first, shard, block.elements.size()});
  }
  return parts;
}

bool broadcast_wins(const SegmentTable& table, DType wire) {
  const int size = static_cast<int>(table.intervals.size());
  std::int64_t fullest = 0;
  for (int rank = 0; rank < size; ++rank)
    fullest = std::max(fullest, table.shard_size(rank));
  return static_cast<std::int64_t>(size_of(wire)) * table.size >= least_broadcast &&
         fullest >= (2 * table.size + size - 2) / std::max(1, size - 1);
}

}  // namespace matrixfsdp::nccl
