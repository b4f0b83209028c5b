#include <algorithm>
#include <utility>

#include "comm/mpi/exchange.hpp"
#include "comm/mpi/library_gather.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/mpi/segments.hpp"

namespace matrixfsdp::mpi {
namespace {

/// Elements of padding: MPI must not receive two messages into one place at a time.
std::int64_t received_padding(const TransferSchedule& schedule) {
  std::int64_t elements = 0;
  for (const PeerTransfers& from : schedule.receives) {
    for (const BlockTransfer& block : from.blocks)
      elements += block.padding;
  }
  return elements;
}

std::int64_t longest_sent_padding(const TransferSchedule& schedule) {
  std::int64_t longest = 0;
  for (const PeerTransfers& to : schedule.sends) {
    for (const BlockTransfer& block : to.blocks)
      longest = std::max(longest, block.padding);
  }
  return longest;
}

/// Carries out a schedule: own segments are sent from the shard, what came from others from the buffer.
class Gather final : public Exchange {
 public:
  Gather(std::shared_ptr<Channel> channel, Purpose purpose, const Unshard& unshard, const float* shard, float* buffer)
      : Exchange(std::move(channel), purpose, segment_pace),
        padding_(static_cast<std::size_t>(received_padding(unshard.schedule))),
        zeros_(static_cast<std::size_t>(longest_sent_padding(unshard.schedule))) {
    std::int64_t number = 0;
    for (const PeerTransfers& from : unshard.schedule.receives)
      number += static_cast<std::int64_t>(from.blocks.size());
    number_receives(number);
    number = 0;
    float* padding = padding_.data();
    for (const PeerTransfers& from : unshard.schedule.receives) {
      for (const BlockTransfer& block : from.blocks) {
        receive(from.peer, block.padding > 0 ? padding : buffer + block.elements.begin, 4 * block.size(), number++);
        padding += block.padding;
      }
    }
    const auto& mine = unshard.table.intervals[static_cast<std::size_t>(rank())];
    for (const PeerTransfers& to : unshard.schedule.sends) {
      for (const BlockTransfer& block : to.blocks) {
        const float* data = buffer + block.elements.begin;
        if (block.padding > 0)
          data = zeros_.data();
        else if (block.after < 0)
          data = shard + shard_position(mine, block.elements.begin);
        send(to.peer, data, 4 * block.size(), block.after);
      }
    }
  }

 private:
  std::vector<float> padding_;  ///< that arrived
  std::vector<float> zeros_;    ///< to send
};

}  // namespace

Request gather(const std::shared_ptr<Channel>& channel, Purpose purpose, const Unshard& unshard, const float* shard,
               float* buffer, const OperationLabel& label) {
  if (unshard.algorithm == CollectiveAlgorithm::allgatherv)
    return issue(library_gather(channel, purpose, unshard.table, shard, buffer), label);
  return issue(std::make_shared<Gather>(channel, purpose, unshard, shard, buffer), label);
}

}  // namespace matrixfsdp::mpi
