#include <algorithm>
#include <utility>

#include "comm/fold.hpp"
#include "comm/mpi/exchange.hpp"
#include "comm/mpi/reduce_position.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/mpi/segments.hpp"
#include "comm/mpi/tree_reduce.hpp"

namespace matrixfsdp::mpi {
namespace {

/// Lane 0, inside a run: every rank sends each block of gradients to its holder. A holder folds block b when all ranks'
/// have come, and what it is folded onto, then lets block b + w come into the same slot of the staging (w =
/// Reduce::window). A sender is never more than w blocks ahead, and all send block b to everybody before they wait for
/// room for block b + w, so nobody waits in a circle. Lane 2, from run to run: sums go on to the next run that
/// completes a group; lane 3: groups that are open to the next one. Both begin the pass where they are kept. Lane 1: at
/// the end of the pass they go back there, and after the last one to the owners: where sums are returned, the owner of
/// the last shard group keeps them, and gives them to the one of the group before; otherwise all owners get them from
/// the holder. Gradients are float or bfloat16, sums float.
template <class Gradient>
class ReduceExchange final : public Exchange {
 public:
  ReduceExchange(std::shared_ptr<Channel> channel, const Reduce& reduce, Pass pass, const ReduceMemory& memory)
      : Exchange(std::move(channel), Purpose::reduce,
                 {4 * reduce.message, std::min(exchange_window, static_cast<int>(reduce.window()))}),
        position_(reduce, pass, rank()),
        pass_(pass),
        returns_(reduce.returns_sums()),
        sum_group_(reduce.sum_group),
        gradients_(reinterpret_cast<const Gradient*>(memory.buffer)),
        shard_(memory.shard),
        own_(own_blocks(reduce, position_, memory)),
        arrived_(reduce.window()) {
    make_staging(reduce, memory);
    number_receives(3 * held() + 3 * own());
    for (int i = 1; i < position_.run.size; ++i)
      send_gradients(reduce, position_.run.first + (position_.place + i) % position_.run.size);
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      pass_on(i);
    send_own_sums();
    send_kept_sums();
    for (std::size_t index = 0; index < arrived_.size(); ++index)
      expect(index);
    give_results_on();
    receive_results();
    if (pass_.last && !returns_) receive_from_holders(reduce);
    fold_what_is_there();
  }

 private:
  // Numbers of what is waited for: a block is folded, its sum and its open group came; own ones left, the result came.
  [[nodiscard]] std::int64_t held() const { return static_cast<std::int64_t>(blocks_.size()); }
  [[nodiscard]] std::int64_t own() const { return static_cast<std::int64_t>(own_.size()); }
  [[nodiscard]] static std::int64_t folded(std::size_t i) { return static_cast<std::int64_t>(i); }
  [[nodiscard]] std::int64_t sum_came(std::size_t i) const { return held() + folded(i); }
  [[nodiscard]] std::int64_t open_came(std::size_t i) const { return 2 * held() + folded(i); }
  [[nodiscard]] std::int64_t sum_left(std::size_t j) const { return 3 * held() + folded(j); }
  [[nodiscard]] std::int64_t open_left(std::size_t j) const { return 3 * held() + own() + folded(j); }
  [[nodiscard]] std::int64_t result_came(std::size_t j) const { return 3 * held() + 2 * own() + folded(j); }

  void make_staging(const Reduce& reduce, const ReduceMemory& memory) {
    slots_ = reduce_slots(reduce, rank());
    const ReduceStaging staging = staging_of(reduce, rank());
    if (staging.gradients > 0) staging_ = make_tensor<Gradient>("matrixfsdp::reduce_staging", staging.gradients);
    const std::int64_t sums = staging.arriving + staging.passing;
    if (sums > 0) sums_ = make_tensor<float>("matrixfsdp::reduce_sums", sums);
    blocks_ = held_blocks(reduce, position_, pass_, memory, sums_.data() + staging.arriving);
  }

  void send_gradients(const Reduce& reduce, int holder) {
    for (const Piece& block : reduce.held_by(holder))
      send(holder, gradients_ + block.elements.begin, bytes_of<Gradient>(block.elements));
  }

  void send_sum(int peer, const float* place, const Interval& elements, std::int64_t after, int lane) {
    if (peer >= 0) send(peer, place, bytes_of<float>(elements), after, lane);
  }
  void receive_sum(int peer, float* place, const Interval& elements, std::int64_t number, int lane) {
    if (peer >= 0) receive(peer, place, bytes_of<float>(elements), number, lane);
  }

  /// Queues the way of a block's sum when it is folded.
  void pass_on(std::size_t i) {
    const HeldBlock& mine = blocks_[i];
    const Interval& elements = mine.block.elements;
    if (mine.at_end && pass_.last && !returns_) {
      for (int replica = 0; replica < position_.replicas; ++replica) {
        const int owner = position_.owner_in(replica, mine.block);
        if (owner != rank()) send_sum(owner, mine.place.sum, elements, folded(i), 1);
      }
    } else {
      send_sum(mine.next.sum, mine.place.sum, elements, folded(i), mine.at_end ? 1 : 2);
    }
    send_sum(mine.next.open, mine.place.open, elements, folded(i), position_.last_run ? 1 : 3);
  }

  /// Of the pass before, to where this one needs them.
  void send_own_sums() {
    if (position_.replica + 1 < position_.replicas) return;
    for (std::size_t j = 0; j < own_.size(); ++j) {
      const OwnBlock& mine = own_[j];
      send_own(mine.to.sum, mine.place.sum, mine.block.elements, 2, sum_left(j));
      send_own(mine.to.open, mine.place.open, mine.block.elements, 3, open_left(j));
    }
  }
  void send_own(int peer, const float* place, const Interval& elements, int lane, std::int64_t number) {
    if (peer < 0) complete_number(number);
    if (peer >= 0 && peer != rank()) send(peer, place, bytes_of<float>(elements), -1, lane, number);
  }

  /// Where sums stay, and the first run completes no group: from its holders to the run that does.
  void send_kept_sums() {
    if (returns_ || position_.run_number > 0 || !position_.pass_begin.sum || position_.first_completing <= 0) return;
    for (const HeldBlock& mine : blocks_) {
      // All runs are as large as the first one.
      send_sum(position_.first_completing * position_.members + position_.place, mine.place.sum, mine.block.elements,
               -1, 2);
    }
  }

  /// Results come to where sums may still have to leave from.
  void receive_results() {
    const bool keeps = position_.replica + 1 == position_.replicas;
    for (; next_result_ < own_.size(); ++next_result_) {
      const OwnBlock& mine = own_[next_result_];
      if (!keeps) {
        if (pass_.last)
          receive_sum(rank() + position_.members, mine.place.sum, mine.block.elements, result_came(next_result_), 1);
        continue;
      }
      if (!has_left(next_result_)) return;
      if (mine.from.sum != rank())
        receive_sum(mine.from.sum, mine.place.sum, mine.block.elements, result_came(next_result_), 1);
      if (mine.from.open != rank()) receive_sum(mine.from.open, mine.place.open, mine.block.elements, -1, 1);
    }
  }

  [[nodiscard]] bool has_left(std::size_t j) const { return is_complete(sum_left(j)) && is_complete(open_left(j)); }
  /// Nothing of the own block is still to be sent from where it is kept. What this rank folds onto does not leave.
  [[nodiscard]] bool may_fold_over(std::size_t j) const {
    return (own_[j].to.sum == rank() || is_complete(sum_left(j))) &&
           (own_[j].to.open == rank() || is_complete(open_left(j)));
  }

  /// From owner to owner, one shard group after the other.
  void give_results_on() {
    if (!returns_ || !pass_.last || position_.replica == 0) return;
    for (std::size_t j = 0; j < own_.size(); ++j)
      send_sum(rank() - position_.members, own_[j].place.sum, own_[j].block.elements, result_came(j), 1);
  }

  /// What other members sum of this rank's segments, where sums stay with them.
  void receive_from_holders(const Reduce& reduce) {
    const int last_group = (position_.replicas - 1) * position_.members;
    for (int i = 1; i < position_.members; ++i) {
      const int member = (position_.member + position_.members - i) % position_.members;
      for (const Piece& block : reduce.held_by(last_group + member)) {
        if (block.owner != position_.member) continue;
        const auto& mine = reduce.table.intervals[static_cast<std::size_t>(position_.member)];
        receive_sum(last_group + member, shard_ + shard_position(mine, block.elements.begin), block.elements, -1, 1);
      }
    }
  }

  /// Sums that stay come back to where they were sent from, so only when all those sends are complete.
  void receive_own_sums() {
    const auto holder = [this](int run) { return run * position_.members + position_.place; };
    const bool first_run = position_.run_number == 0;
    for (const HeldBlock& mine : blocks_) {
      const Interval& elements = mine.block.elements;
      if (pass_.last && !position_.last_run && mine.block.owner == position_.member)
        receive_sum(holder(position_.replicas - 1), mine.place.sum, elements, -1, 1);
      if (pass_.last || !first_run || position_.last_run) continue;
      if (position_.last_completing > 0)
        receive_sum(holder(position_.last_completing), mine.place.sum, elements, -1, 1);
      if (position_.pass_end.open) receive_sum(holder(position_.replicas - 1), mine.place.open, elements, -1, 1);
    }
  }

  /// Block `index` of all members of the run, and what it is folded onto, into its slot of the staging.
  void expect(std::size_t index) {
    arrived_[index % arrived_.size()] = 0;
    if (index >= blocks_.size()) return;
    const std::int64_t slot = slots_.of(index);
    const HeldBlock& mine = blocks_[index];
    for (int i = 1; i < position_.run.size; ++i) {
      const int from = (position_.place + position_.run.size - i) % position_.run.size;
      receive(position_.run.first + from,
              staging_.data() + staging_row(from, position_.place, position_.run.size) * slots_.elements + slot,
              bytes_of<Gradient>(mine.block.elements));
    }
    expect_sum(mine.source.sum, slot, mine.block.elements, sum_came(index), 2);
    expect_sum(mine.source.open, slots_.elements + slot, mine.block.elements, open_came(index), 3);
  }
  void expect_sum(int source, std::int64_t offset, const Interval& elements, std::int64_t number, int lane) {
    if (source < 0)
      complete_number(number);
    else
      receive_sum(source, sums_.data() + offset, elements, number, lane);
  }

  void received(int lane, std::int64_t message) override {
    if (lane == 0) ++arrived_[static_cast<std::size_t>(message) % arrived_.size()];
    if (lane != 1) fold_what_is_there();
  }

  void sent() override {
    receive_results();
    fold_what_is_there();
  }

  bool next_stage() override {
    if (came_back_ || returns_) return false;
    came_back_ = true;
    receive_own_sums();
    return true;
  }

  [[nodiscard]] bool ready(std::size_t i) const {
    const HeldBlock& mine = blocks_[i];
    return arrived_[i % arrived_.size()] == position_.run.size - 1 && is_complete(sum_came(i)) &&
           is_complete(open_came(i)) && (!mine.folds_over || may_fold_over(static_cast<std::size_t>(mine.own)));
  }

  void fold_what_is_there() {
    while (next_ < blocks_.size() && ready(next_))
      fold();
  }

  void fold() {
    const HeldBlock& mine = blocks_[next_];
    const Interval& elements = mine.block.elements;
    const std::int64_t slot = slots_.of(next_);
    const Gradient* others = position_.run.size > 1 ? staging_.data() + slot : nullptr;
    const FoldBlockOf<Gradient> block{others, slots_.elements, gradients_ + elements.begin, position_.place,
                                      position_.run.size};
    const float* sum_before = mine.source.sum >= 0 ? sums_.data() + slot : mine.onto.sum;
    const float* open_before = mine.source.open >= 0 ? sums_.data() + slots_.elements + slot : mine.onto.open;
    fold_block(block, {sum_before, open_before, mine.place.sum, mine.place.open, position_.summed, sum_group_},
               elements.size());
    complete_number(folded(next_));
    if (mine.own >= 0) note_own(static_cast<std::size_t>(mine.own), mine.folds_over);
    expect(next_ + arrived_.size());
    ++next_;
  }

  /// An own block is folded here.
  void note_own(std::size_t j, bool over) {
    if (own_[j].to.sum == rank()) complete_number(sum_left(j));
    if (own_[j].to.open == rank()) complete_number(open_left(j));
    if (over) complete_number(result_came(j));
    receive_results();
  }

  ReducePosition position_;
  Pass pass_;
  bool returns_;  // sums, to their owners
  std::int64_t sum_group_;
  const Gradient* gradients_;
  float* shard_;
  std::vector<OwnBlock> own_;      // of this rank, where sums are returned
  std::vector<HeldBlock> blocks_;  // that this rank sums
  ReduceSlots slots_;              // of a peer's staging
  Tensor<Gradient> staging_;
  Tensor<float> sums_;                 // that arrive, and that pass through
  std::size_t next_ = 0;               // block to fold
  std::size_t next_result_ = 0;        // own block whose result may come
  std::vector<std::int64_t> arrived_;  // members whose block is there, of the next blocks
  bool came_back_ = false;
};

}  // namespace

Request reduce(const std::shared_ptr<Channel>& channel, const Reduce& prepared, Pass pass, float* buffer, float* sums,
               float* shard, const OperationLabel& label) {
  const ReduceMemory memory{buffer, sums, shard};
  if (prepared.algorithm == CollectiveAlgorithm::tree)
    return issue(tree_reduce(channel, prepared, pass, memory), label);
  if (prepared.wire == DType::bfloat16)
    return issue(std::make_shared<ReduceExchange<bfloat16>>(channel, prepared, pass, memory), label);
  return issue(std::make_shared<ReduceExchange<float>>(channel, prepared, pass, memory), label);
}

}  // namespace matrixfsdp::mpi
