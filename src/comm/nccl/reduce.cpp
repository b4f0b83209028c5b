#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "comm/mpi/segment_pace.hpp"
#include "comm/nccl/backend.hpp"
#include "comm/nccl/operation.hpp"

namespace matrixfsdp::nccl {
namespace {

/// Rounds of two blocks of every holder: one group brings all ranks' gradients of them into the holders' staging, then
/// the folds run, and the next group waits for them on the stream. After the last round the sums go to their owners.
class Rounds {
 public:
  Rounds(const Engine& engine, Operation& operation, const Reduce& reduce, Pass pass, const float* buffer,
         int most_operations)
      : operation_(operation),
        reduce_(reduce),
        pass_(pass),
        buffer_(buffer),
        most_operations_(most_operations),
        rank_(engine.channel()->rank),
        size_(engine.channel()->size) {
    const auto [even, odd] = reduce_staging(reduce, rank_);
    half_ = even;
    stride_ = even + odd;
    if (size_ > 1 && stride_ > 0) staging_ = operation.make_staging((size_ - 1) * stride_);
  }

  void add(float* sums, float* shard) {
    place_sums(sums, shard);
    std::size_t longest = 0;
    for (const auto& blocks : reduce_.blocks)
      longest = std::max(longest, blocks.size());
    for (std::size_t first = 0; first < longest; first += 2) {
      add_exchange(first);
      add_fold(first);
      add_fold(first + 1);
    }
    if (pass_.last) add_owners(sums, shard);
  }

 private:
  [[nodiscard]] const std::vector<Piece>& held() const { return reduce_.held_by(rank_); }

  /// Where each block that this rank holds is summed.
  void place_sums(float* sums, float* shard) {
    const auto& mine = reduce_.table.intervals[static_cast<std::size_t>(rank_)];
    for (const Piece& block : held()) {
      const bool own = block.owner == rank_;
      sums_.push_back(own ? shard + mpi::shard_position(mine, block.elements.begin) : sums);
      if (!own) sums += block.elements.size();
    }
  }

  void add_exchange(std::size_t first) {
    MessagesByPeer to(static_cast<std::size_t>(size_));
    MessagesByPeer from(static_cast<std::size_t>(size_));
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      for (std::size_t index = first; index < first + 2; ++index) {
        add_block(peer, index, to[static_cast<std::size_t>(peer)]);
        add_room(peer, index, from[static_cast<std::size_t>(peer)]);
      }
    }
    operation_.add_groups(make_groups(rank_, to, from, most_operations_), Purpose::reduce);
  }

  /// This rank's gradient of block `index` of `holder`.
  void add_block(int holder, std::size_t index, std::vector<Message>& messages) const {
    const auto& blocks = reduce_.held_by(holder);
    if (index >= blocks.size() || blocks[index].elements.empty()) return;
    const Interval& elements = blocks[index].elements;
    messages.push_back({const_cast<float*>(buffer_) + elements.begin, elements.size()});
  }

  /// Room for the gradient of `peer`, of block `index` of this rank.
  void add_room(int peer, std::size_t index, std::vector<Message>& messages) const {
    if (index >= held().size() || held()[index].elements.empty()) return;
    messages.push_back({half_of(index) + staging_row(peer, rank_, size_) * stride_, held()[index].elements.size()});
  }

  [[nodiscard]] float* half_of(std::size_t index) const {
    return staging_ == nullptr ? nullptr : staging_ + static_cast<std::int64_t>(index % 2) * half_;
  }

  void add_fold(std::size_t index) {
    if (index >= held().size()) return;
    const Interval& elements = held()[index].elements;
    // After a pass no group of the sum is open (backend_for in segments.cpp).
    operation_.add_fold({{half_of(index), stride_, buffer_ + elements.begin, rank_, size_},
                         {sums_[index], nullptr, sums_[index], nullptr, pass_.number * size_, reduce_.sum_group},
                         elements.size()});
  }

  void add_owners(float* sums, float* shard) {
    MessagesByPeer to(static_cast<std::size_t>(size_));
    MessagesByPeer from(static_cast<std::size_t>(size_));
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      for (const OwnersPart& part : parts_for_owner(reduce_, rank_, peer))
        to[static_cast<std::size_t>(peer)].push_back({sums + part.sum, part.elements});
      for (const OwnersPart& part : parts_for_owner(reduce_, peer, rank_))
        from[static_cast<std::size_t>(peer)].push_back({shard + part.shard, part.elements});
    }
    operation_.add_groups(make_groups(rank_, to, from, most_operations_), Purpose::reduce);
  }

  Operation& operation_;
  const Reduce& reduce_;
  Pass pass_;
  const float* buffer_;
  int most_operations_;
  int rank_;
  int size_;
  std::int64_t half_ = 0;    // elements of a peer's staging before that of odd-numbered blocks
  std::int64_t stride_ = 0;  // elements of a peer's staging
  float* staging_ = nullptr;
  std::vector<float*> sums_;  // of each block that this rank holds
};

}  // namespace

Request Backend::reduce(const Reduce& prepared, Pass pass, const float* buffer, float* sums, float* shard,
                        const OperationLabel& label) {
  return start(label, [&](Operation& operation) {
    Rounds(*engine_, operation, prepared, pass, buffer, options_.group_operations).add(sums, shard);
  });
}

}  // namespace matrixfsdp::nccl
