#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>

/// Which messages travel in which group. Nothing here calls NCCL.
namespace matrixfsdp::nccl {

/// Elements that one rank sends to, or receives from, another. Never empty.
struct Message {
  float* data;  ///< a send only reads it
  std::int64_t elements;
};

/// By peer, in the order in which the two agree.
using MessagesByPeer = std::vector<std::vector<Message>>;

struct Transfer {
  bool sends;
  int peer;
  Message message;
};
using Group = std::vector<Transfer>;

/// Cuts what `rank` sends and receives into groups of at most `most_operations` (>= 2) transfers. Message m between two
/// ranks is in the group of the same number on both, however much the others have to do: ranks that end a group wait
/// for each other, so a message whose ends are in different groups can close a circle. A group may be empty.
std::vector<Group> make_groups(int rank, const MessagesByPeer& to, const MessagesByPeer& from, int most_operations);

/// Of a reduce, what `holder` sends to `owner` after the last pass: neighbouring blocks in one message, where they are
/// neighbours in the owner's shard too.
struct OwnersPart {
  std::int64_t sum;    ///< its first element in the holder's running sums
  std::int64_t shard;  ///< its first element in the owner's shard
  std::int64_t elements;
};
std::vector<OwnersPart> parts_for_owner(const Reduce& reduce, int holder, int owner);

/// GatherBy::automatic (nccl.hpp). Through the fullest owner's link go (W - 1) times its segments by send and receive,
/// and about all P elements, once, by broadcasts, which NCCL pipelines from rank to rank; but a broadcast takes more
/// hops, so what is small goes directly.
bool broadcast_wins(const SegmentTable& table);

}  // namespace matrixfsdp::nccl
