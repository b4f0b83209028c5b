#include <algorithm>
#include <array>
#include <utility>

#include "comm/fold.hpp"
#include "comm/mpi/exchange.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/mpi/segments.hpp"

namespace matrixfsdp::mpi {
namespace {

/// Lane 0, inside a shard group: every rank sends each block of gradients to its holder. A holder folds block b when
/// all ranks' have come, then lets block b + 2 come into the same half of the staging. A sender is never more than two
/// blocks ahead, and all send block b to everybody before they wait for room for block b + 2, so nobody waits in a
/// circle. Lane 2, from group to group: a folded block goes on to the holder of the next group, which folds onto it.
/// Lane 1: a block that the last group has folded goes to its owners, one in each group, or while there are more passes
/// to the first group's holder. Gradients are float or bfloat16, sums float.
template <class Gradient>
class ReduceExchange final : public Exchange {
 public:
  ReduceExchange(std::shared_ptr<Channel> channel, const Reduce& reduce, Pass pass, const Gradient* buffer, float* sums,
                 float* shard)
      : Exchange(std::move(channel), Purpose::reduce, {4 * exchange_block, 2}),
        members_(static_cast<int>(reduce.table.intervals.size())),
        member_(rank() % members_),
        group_(rank() / members_),
        last_group_(reduce.replicas - 1),
        pass_(pass),
        buffer_(buffer),
        mine_(reduce.table.intervals[static_cast<std::size_t>(member_)]),
        shard_(shard),
        blocks_(reduce.held_by(member_)),
        chain_arrived_(blocks_.size(), group_ == 0) {
    const auto [even, odd] = reduce_staging(reduce, member_);
    half_ = even;
    stride_ = even + odd;
    if (members_ > 1 && stride_ > 0)
      staging_ = make_tensor<Gradient>("matrixfsdp::reduce_staging", (members_ - 1) * stride_);
    number_receives(static_cast<std::int64_t>(blocks_.size()));
    for (const Piece& block : blocks_) {
      const bool own = block.owner == member_;
      sums_.push_back(own ? place_of(block) : sums);
      if (!own) sums += block.elements.size();
    }
    for (int i = 1; i < members_; ++i) {
      for (const Piece& block : reduce.held_by((member_ + i) % members_))
        send(rank_of(group_, block.holder), buffer + block.elements.begin, bytes_of<Gradient>(block.elements));
    }
    expect(0);
    expect(1);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      pass_on(i);
    if (pass_.last) receive_from_holders(reduce);
    fold_what_is_there();
  }

 private:
  [[nodiscard]] int rank_of(int group, int member) const { return group * members_ + member; }
  [[nodiscard]] float* place_of(const Piece& block) const {
    return shard_ + shard_position(mine_, block.elements.begin);
  }

  /// Queues the way of a block's sum: from the group before, and on.
  void pass_on(std::size_t i) {
    const Piece& block = blocks_[i];
    const std::int64_t bytes = bytes_of<float>(block.elements);
    const auto when_folded = static_cast<std::int64_t>(i);
    if (group_ > 0) receive(rank_of(group_ - 1, member_), sums_[i], bytes, -1, 2);
    if (group_ < last_group_) {
      send(rank_of(group_ + 1, member_), sums_[i], bytes, when_folded, 2);
    } else if (pass_.last) {
      for (int group = 0; group <= last_group_; ++group) {
        const int owner = rank_of(group, block.owner);
        if (owner != rank()) send(owner, sums_[i], bytes, when_folded, 1);
      }
    } else if (last_group_ > 0) {
      send(rank_of(0, member_), sums_[i], bytes, when_folded, 1);
    }
  }

  /// What other members sum of this rank's segments.
  void receive_from_holders(const Reduce& reduce) {
    for (int i = 1; i < members_; ++i) {
      for (const Piece& block : reduce.held_by((member_ + members_ - i) % members_)) {
        if (block.owner == member_)
          receive(rank_of(last_group_, block.holder), place_of(block), bytes_of<float>(block.elements), -1, 1);
      }
    }
  }

  /// Sums come back to where they were sent from, so only when all those sends are complete.
  void receive_own_sums() {
    const bool to_owner = pass_.last && group_ < last_group_;
    const bool to_first_group = !pass_.last && group_ == 0 && last_group_ > 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (to_first_group || (to_owner && blocks_[i].owner == member_))
        receive(rank_of(last_group_, member_), sums_[i], bytes_of<float>(blocks_[i].elements), -1, 1);
    }
  }

  /// Block `index` of all peers, into its half of the staging.
  void expect(std::size_t index) {
    arrived_[index % 2] = 0;
    if (index >= blocks_.size()) return;
    for (int i = 1; i < members_; ++i) {
      const int from = (member_ + members_ - i) % members_;
      const int row = from < member_ ? from : from - 1;
      receive(rank_of(group_, from), staging_.data() + row * stride_ + static_cast<std::int64_t>(index % 2) * half_,
              bytes_of<Gradient>(blocks_[index].elements));
    }
  }

  void received(int lane, std::int64_t message) override {
    if (lane == 0) ++arrived_[static_cast<std::size_t>(message % 2)];
    if (lane == 2) chain_arrived_[static_cast<std::size_t>(message)] = true;
    if (lane != 1) fold_what_is_there();
  }

  bool next_stage() override {
    if (came_back_) return false;
    came_back_ = true;
    receive_own_sums();
    return true;
  }

  void fold_what_is_there() {
    while (next_ < blocks_.size() && arrived_[next_ % 2] == members_ - 1 && chain_arrived_[next_])
      fold();
  }

  void fold() {
    const Interval& elements = blocks_[next_].elements;
    const FoldBlockOf<Gradient> block{staging_.data() + static_cast<std::int64_t>(next_ % 2) * half_, stride_,
                                      buffer_ + elements.begin, member_, members_};
    fold_block(block, pass_.first && group_ == 0, sums_[next_], elements.size());
    complete_number(static_cast<std::int64_t>(next_));
    expect(next_ + 2);
    ++next_;
  }

  int members_;     // of a shard group
  int member_;      // this rank in its group
  int group_;       // this rank's
  int last_group_;  // replicas less one
  Pass pass_;
  const Gradient* buffer_;
  std::array<Interval, 2> mine_;
  float* shard_;
  std::vector<Piece> blocks_;  // that this rank sums
  std::vector<float*> sums_;   // of each block
  std::int64_t half_ = 0;      // elements of a peer's staging before that of odd-numbered blocks
  std::int64_t stride_ = 0;    // elements of a peer's staging
  Tensor<Gradient> staging_;
  std::size_t next_ = 0;                   // block to fold
  std::array<std::int64_t, 2> arrived_{};  // members whose block is there, of the next two blocks
  std::vector<bool> chain_arrived_;        // by block: the sum of the groups before
  bool came_back_ = false;
};

}  // namespace

Request reduce(const std::shared_ptr<Channel>& channel, const Reduce& prepared, Pass pass, const float* buffer,
               float* sums, float* shard, const OperationLabel& label) {
  if (prepared.wire == DType::bfloat16) {
    const auto* words = reinterpret_cast<const bfloat16*>(buffer);
    return issue(std::make_shared<ReduceExchange<bfloat16>>(channel, prepared, pass, words, sums, shard), label);
  }
  return issue(std::make_shared<ReduceExchange<float>>(channel, prepared, pass, buffer, sums, shard), label);
}

}  // namespace matrixfsdp::mpi
