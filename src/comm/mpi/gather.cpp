#include <algorithm>
#include <utility>

#include <matrixfsdp/tensor/wire.hpp>

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

/// Carries out a schedule: what came from others is sent from the buffer, own segments from the shard, or as words from
/// the buffer too, where they have been rounded to.
class Gather final : public Exchange {
 public:
  Gather(std::shared_ptr<Channel> channel, Purpose purpose, const Unshard& unshard, const float* shard, float* buffer)
      : Exchange(std::move(channel), purpose, segment_pace),
        buffer_(buffer, static_cast<std::size_t>(unshard.table.size)),
        words_(unshard.wire == DType::bfloat16),
        element_bytes_(static_cast<std::int64_t>(size_of(unshard.wire))),
        padding_(static_cast<std::size_t>(element_bytes_ * received_padding(unshard.schedule))),
        zeros_(static_cast<std::size_t>(element_bytes_ * longest_sent_padding(unshard.schedule))) {
    std::int64_t number = 0;
    for (const PeerTransfers& from : unshard.schedule.receives)
      number += static_cast<std::int64_t>(from.blocks.size());
    number_receives(number);
    number = 0;
    std::byte* padding = padding_.data();
    for (const PeerTransfers& from : unshard.schedule.receives) {
      for (const BlockTransfer& block : from.blocks) {
        const std::int64_t bytes = element_bytes_ * block.size();
        receive(unshard.first_rank + from.peer, block.padding > 0 ? padding : place_of(block.elements.begin), bytes,
                number++);
        padding += element_bytes_ * block.padding;
      }
    }
    const auto& mine = unshard.table.intervals[static_cast<std::size_t>(rank() - unshard.first_rank)];
    for (const PeerTransfers& to : unshard.schedule.sends) {
      for (const BlockTransfer& block : to.blocks) {
        const void* data = place_of(block.elements.begin);
        if (block.padding > 0)
          data = zeros_.data();
        else if (block.after < 0 && !words_ && shard != nullptr)
          data = shard + shard_position(mine, block.elements.begin);
        send(unshard.first_rank + to.peer, data, element_bytes_ * block.size(), block.after);
      }
    }
  }

 private:
  /// Where an element stands while it is under way.
  std::byte* place_of(std::int64_t element) {
    auto* begin = words_ ? reinterpret_cast<std::byte*>(upper_words(buffer_).data())
                         : reinterpret_cast<std::byte*>(buffer_.data());
    return begin + element_bytes_ * element;
  }

  /// Nothing is sent or received any more.
  bool next_stage() override {
    if (words_) widen(buffer_);
    return false;
  }

  TensorView<float> buffer_;
  bool words_;  ///< bfloat16 travels
  std::int64_t element_bytes_;
  std::vector<std::byte> padding_;  ///< that arrived
  std::vector<std::byte> zeros_;    ///< to send
};

}  // namespace

Request gather(const std::shared_ptr<Channel>& channel, Purpose purpose, const Unshard& unshard, const float* shard,
               float* buffer, const OperationLabel& label) {
  if (unshard.algorithm == CollectiveAlgorithm::allgatherv)
    return issue(library_gather(channel, purpose, unshard, buffer), label);
  return issue(std::make_shared<Gather>(channel, purpose, unshard, shard, buffer), label);
}

}  // namespace matrixfsdp::mpi
