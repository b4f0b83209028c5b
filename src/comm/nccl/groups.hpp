#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/collective.hpp>

/// Which messages travel in which group. Nothing here calls NCCL.
namespace matrixfsdp::nccl {

/// Elements that one rank sends to, or receives from, another. Never empty.
struct Message {
  void* data;  ///< a send only reads it
  std::int64_t elements;
  DType type = DType::float32;
};

/// By peer, in the order in which the two agree.
using MessagesByPeer = std::vector<std::vector<Message>>;

struct Transfer {
  bool sends;
  int peer;
  Message message;
};
using Group = std::vector<Transfer>;

/// Cuts what `rank` sends and receives into groups of at most `most_operations` (>= 2) transfers. Ranks that end a
/// group wait for each other, but no circle of them does: all go through their messages in one order, by the number of
/// a message between its two ranks, then by their distance, and what a rank sends and receives at one place of that
/// order is in one group. So wherever each of them cuts, both ends of the first message that has not arrived are under
/// way.
std::vector<Group> make_groups(int rank, const MessagesByPeer& to, const MessagesByPeer& from, int most_operations);

/// Of a reduce, what `holder` sends to `owner` after the last pass (to itself: in other groups of ranks): neighbouring
/// blocks in one message, where they are neighbours in the owner's shard too.
struct OwnersPart {
  std::int64_t sum;    ///< its first element in the holder's running sums; in its shard, where it is the owner
  std::int64_t shard;  ///< its first element in the owner's shard
  std::int64_t elements;
};
std::vector<OwnersPart> parts_for_owner(const Reduce& reduce, int holder, int owner);

/// GatherBy::automatic (nccl.hpp). Through the fullest owner's link go (W - 1) times its segments by send and receive,
/// and about all P elements, once, by broadcasts, which NCCL pipelines from rank to rank; but a broadcast takes more
/// hops, so what is small goes directly.
bool broadcast_wins(const SegmentTable& table, DType wire);

}  // namespace matrixfsdp::nccl
