#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <matrixfsdp/tensor/wire.hpp>

#include "comm/fold.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/nccl/backend.hpp"
#include "comm/nccl/operation.hpp"

namespace matrixfsdp::nccl {
namespace {

/// Rounds of as many blocks of every holder of a shard group as its staging has slots: one NCCL group brings all
/// members' gradients of them into the holders' staging, another the sums of the group of ranks before, then the folds
/// run, and the sums go on to the next group of ranks; the next round waits for all that on the stream. After the last
/// round the sums of the last group go to their owners, or while there are more passes to the first group. Nobody waits
/// in a circle: a round waits for the same round of the groups before, and for the round before of the groups behind.
/// Gradients are float or bfloat16, sums float.
template <class Gradient>
class Rounds {
 public:
  Rounds(const Engine& engine, Operation& operation, const Reduce& reduce, Pass pass, const Gradient* buffer,
         int most_operations)
      : operation_(operation),
        reduce_(reduce),
        pass_(pass),
        buffer_(buffer),
        most_operations_(most_operations),
        rank_(engine.channel()->rank),
        size_(engine.channel()->size),
        members_(static_cast<int>(reduce.table.intervals.size())),
        member_(rank_ % members_),
        group_(rank_ / members_),
        last_group_(reduce.replicas - 1) {
    for (int holder = 0; holder < members_; ++holder)
      slots_.push_back(reduce_slots(reduce, holder));
    if (members_ > 1 && stride() > 0) {
      staging_ = reinterpret_cast<Gradient*>(
          operation.make_staging((members_ - 1) * stride() * static_cast<std::int64_t>(sizeof(Gradient))));
    }
  }

  void add(float* sums, float* shard) {
    place_sums(sums, shard);
    std::size_t longest = 0;
    for (const auto& blocks : reduce_.blocks)
      longest = std::max(longest, blocks.size());
    for (std::size_t first = 0; first < longest; first += reduce_.window()) {
      add_exchange(first);
      add_sums_of(first, group_ - 1, group_);
      add_folds(first);
      add_sums_of(first, group_, group_ + 1);
    }
    if (pass_.last)
      add_owners(sums, shard);
    else
      add_return();
  }

 private:
  [[nodiscard]] const std::vector<Piece>& held() const { return reduce_.held_by(member_); }
  /// Elements of a row of the staging: what comes from one peer.
  [[nodiscard]] std::int64_t stride() const { return slots_[static_cast<std::size_t>(member_)].elements; }
  [[nodiscard]] int rank_of(int group, int member) const { return group * members_ + member; }
  static constexpr DType type = sizeof(Gradient) == 2 ? DType::bfloat16 : DType::float32;

  /// Messages to and from each rank, which become groups.
  struct Messages {
    explicit Messages(int size) : to(static_cast<std::size_t>(size)), from(static_cast<std::size_t>(size)) {}
    std::vector<Message>& sent_to(int rank) { return to[static_cast<std::size_t>(rank)]; }
    std::vector<Message>& received_from(int rank) { return from[static_cast<std::size_t>(rank)]; }

    MessagesByPeer to;
    MessagesByPeer from;
  };
  void add_messages(const Messages& messages) {
    operation_.add_groups(make_groups(rank_, messages.to, messages.from, most_operations_), Purpose::reduce);
  }

  /// Where each block that this rank holds is summed.
  void place_sums(float* sums, float* shard) {
    const auto& mine = reduce_.table.intervals[static_cast<std::size_t>(member_)];
    for (const Piece& block : held()) {
      const bool own = block.owner == member_;
      sums_.push_back(own ? shard + mpi::shard_position(mine, block.elements.begin) : sums);
      if (!own) sums += block.elements.size();
    }
  }

  /// Blocks that lie behind one another in the buffer and in a row of the staging, and belong to one owner: one message
  /// and one kernel.
  struct Stretch {
    Interval elements;
    std::int64_t slot = 0;  ///< where it begins in a row of the staging
    std::size_t first = 0;  ///< block
  };
  /// Of the round of `holder` that begins with block `first`.
  [[nodiscard]] std::vector<Stretch> stretches_of(int holder, std::size_t first) const {
    const std::vector<Piece>& blocks = reduce_.held_by(holder);
    const ReduceSlots& slots = slots_[static_cast<std::size_t>(holder)];
    std::vector<Stretch> stretches;
    for (std::size_t index = first; index < std::min(blocks.size(), first + reduce_.window()); ++index) {
      const Interval& elements = blocks[index].elements;
      if (elements.empty()) continue;
      if (!stretches.empty()) {
        Stretch& last = stretches.back();
        if (blocks[last.first].owner == blocks[index].owner && last.elements.end == elements.begin &&
            last.slot + last.elements.size() == slots.of(index)) {
          last.elements.end = elements.end;
          continue;
        }
      }
      stretches.push_back({elements, slots.of(index), index});
    }
    return stretches;
  }

  void add_exchange(std::size_t first) {
    Messages messages(size_);
    const std::vector<Stretch> mine = stretches_of(member_, first);
    for (int peer = 0; peer < members_; ++peer) {
      if (peer == member_) continue;
      for (const Stretch& theirs : stretches_of(peer, first)) {
        messages.sent_to(rank_of(group_, peer))
            .push_back({const_cast<Gradient*>(buffer_) + theirs.elements.begin, theirs.elements.size(), type});
      }
      Gradient* row = staging_ + staging_row(peer, member_, members_) * stride();
      for (const Stretch& stretch : mine) {
        messages.received_from(rank_of(group_, peer)).push_back({row + stretch.slot, stretch.elements.size(), type});
      }
    }
    add_messages(messages);
  }

  /// The sum of block `index` that this rank holds.
  void add_sum(std::size_t index, std::vector<Message>& messages) const {
    if (index < held().size() && !held()[index].elements.empty())
      messages.push_back({sums_[index], held()[index].elements.size()});
  }

  /// The sums of a round go from a group of ranks to the next: this rank is in one of them.
  void add_sums_of(std::size_t first, int from, int to) {
    if (from < 0 || to > last_group_) return;
    Messages messages(size_);
    auto& mine =
        group_ == from ? messages.sent_to(rank_of(to, member_)) : messages.received_from(rank_of(from, member_));
    for (std::size_t index = first; index < first + reduce_.window(); ++index)
      add_sum(index, mine);
    add_messages(messages);
  }

  void add_folds(std::size_t first) {
    for (const Stretch& stretch : stretches_of(member_, first)) {
      const Gradient* others = staging_ == nullptr ? nullptr : staging_ + stretch.slot;
      const FoldBlockOf<Gradient> block{others, stride(), buffer_ + stretch.elements.begin, member_, members_};
      // No group of the sum is open where a run begins (backend_of in segments.cpp).
      float* sum = sums_[stretch.first];
      const FoldSums sums{sum, nullptr, sum, nullptr, pass_.number * size_ + group_ * members_, reduce_.sum_group};
      operation_.add_kernel([block, sums, count = stretch.elements.size()](const ExecutionSpace& space) {
        start_fold(space, block, sums, count);
      });
    }
  }

  /// From the last group to the owners of all groups.
  void add_owners(float* sums, float* shard) {
    Messages messages(size_);
    for (int peer = 0; peer < size_ && group_ == last_group_; ++peer) {
      if (peer == rank_) continue;
      const int owner = peer % members_;
      for (const OwnersPart& part : parts_for_owner(reduce_, member_, owner))
        messages.sent_to(peer).push_back({(owner == member_ ? shard : sums) + part.sum, part.elements});
    }
    for (int holder = 0; holder < members_; ++holder) {
      const int peer = rank_of(last_group_, holder);
      if (peer == rank_) continue;
      for (const OwnersPart& part : parts_for_owner(reduce_, holder, member_))
        messages.received_from(peer).push_back({shard + part.shard, part.elements});
    }
    add_messages(messages);
  }

  /// From the last group to the first, which goes on with the next pass.
  void add_return() {
    if (last_group_ == 0 || (group_ != 0 && group_ != last_group_)) return;
    Messages messages(size_);
    auto& mine =
        group_ == 0 ? messages.received_from(rank_of(last_group_, member_)) : messages.sent_to(rank_of(0, member_));
    for (std::size_t index = 0; index < held().size(); ++index)
      add_sum(index, mine);
    add_messages(messages);
  }

  Operation& operation_;
  const Reduce& reduce_;
  Pass pass_;
  const Gradient* buffer_;
  int most_operations_;
  int rank_;
  int size_;
  int members_;                     // of a shard group
  int member_;                      // this rank in its group
  int group_;                       // this rank's
  int last_group_;                  // replicas less one
  std::vector<ReduceSlots> slots_;  // of the staging of each member
  Gradient* staging_ = nullptr;
  std::vector<float*> sums_;  // of each block that this rank holds
};

}  // namespace

Request Backend::reduce(const Reduce& prepared, Pass pass, float* buffer, float* sums, float* shard,
                        const OperationLabel& label) {
  return start(label, [&](Operation& operation) {
    if (prepared.wire == DType::float32) {
      Rounds<float>(*engine_, operation, prepared, pass, buffer, options_.group_operations).add(sums, shard);
      return;
    }
    const TensorView<float> gradient(buffer, static_cast<std::size_t>(prepared.table.size));
    operation.add_kernel([gradient](const ExecutionSpace& space) { start_round_in_place(space, gradient); });
    Rounds<bfloat16>(*engine_, operation, prepared, pass, lower_words(gradient).data(), options_.group_operations)
        .add(sums, shard);
  });
}

}  // namespace matrixfsdp::nccl
