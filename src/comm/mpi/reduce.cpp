#include <algorithm>
#include <array>
#include <utility>

#include "comm/fold.hpp"
#include "comm/mpi/exchange.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/mpi/segments.hpp"

namespace matrixfsdp::mpi {
namespace {

/// Lane 0: every rank sends each block of gradients to its holder. A holder folds block b when all ranks' have come,
/// then lets block b + 2 come into the same half of the staging. A sender is never more than two blocks ahead, and all
/// send block b to everybody before they wait for room for block b + 2, so nobody waits in a circle. Lane 1, in the
/// last pass: a folded block goes to its owner. Gradients are float or bfloat16, sums float.
template <class Gradient>
class ReduceExchange final : public Exchange {
 public:
  ReduceExchange(std::shared_ptr<Channel> channel, const Reduce& reduce, Pass pass, const Gradient* buffer, float* sums,
                 float* shard)
      : Exchange(std::move(channel), Purpose::reduce, {4 * exchange_block, 2}),
        first_(pass.first),
        buffer_(buffer),
        blocks_(reduce.held_by(rank())) {
    const auto [even, odd] = reduce_staging(reduce, rank());
    half_ = even;
    stride_ = even + odd;
    if (size() > 1 && stride_ > 0)
      staging_ = make_tensor<Gradient>("matrixfsdp::reduce_staging", (size() - 1) * stride_);
    number_receives(static_cast<std::int64_t>(blocks_.size()));
    const auto& mine = reduce.table.intervals[static_cast<std::size_t>(rank())];
    for (const Piece& block : blocks_) {
      const bool own = block.owner == rank();
      sums_.push_back(own ? shard + shard_position(mine, block.elements.begin) : sums);
      if (!own) sums += block.elements.size();
    }
    for (int i = 1; i < size(); ++i) {
      for (const Piece& block : reduce.held_by((rank() + i) % size()))
        send(block.holder, buffer + block.elements.begin, bytes_of<Gradient>(block.elements));
    }
    expect(0);
    expect(1);
    if (pass.last) bring_to_owners(reduce, shard);
  }

 private:
  void bring_to_owners(const Reduce& reduce, float* shard) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Piece& block = blocks_[i];
      if (block.owner == rank()) continue;
      send(block.owner, sums_[i], bytes_of<float>(block.elements), static_cast<std::int64_t>(i), 1);
    }
    const auto& mine = reduce.table.intervals[static_cast<std::size_t>(rank())];
    for (int i = 1; i < size(); ++i) {
      for (const Piece& block : reduce.held_by((rank() + size() - i) % size())) {
        if (block.owner != rank()) continue;
        receive(block.holder, shard + shard_position(mine, block.elements.begin), bytes_of<float>(block.elements), -1,
                1);
      }
    }
  }

  /// Block `index` of all peers, into its half of the staging.
  void expect(std::size_t index) {
    arrived_[index % 2] = 0;
    if (index >= blocks_.size()) return;
    for (int i = 1; i < size(); ++i) {
      const int from = (rank() + size() - i) % size();
      const int row = from < rank() ? from : from - 1;
      receive(from, staging_.data() + row * stride_ + static_cast<std::int64_t>(index % 2) * half_,
              bytes_of<Gradient>(blocks_[index].elements));
    }
  }

  void received(std::int64_t message) override {
    ++arrived_[static_cast<std::size_t>(message % 2)];
    while (next_ < blocks_.size() && arrived_[next_ % 2] == size() - 1)
      fold();
  }

  /// A single rank has nobody to wait for.
  bool next_stage() override {
    if (next_ == blocks_.size()) return false;
    fold();
    return true;
  }

  void fold() {
    const Interval& elements = blocks_[next_].elements;
    const FoldBlockOf<Gradient> block{staging_.data() + static_cast<std::int64_t>(next_ % 2) * half_, stride_,
                                      buffer_ + elements.begin, rank(), size()};
    fold_block(block, first_, sums_[next_], elements.size());
    complete_number(static_cast<std::int64_t>(next_));
    expect(next_ + 2);
    ++next_;
  }

  bool first_;
  const Gradient* buffer_;
  std::vector<Piece> blocks_;  // that this rank sums
  std::vector<float*> sums_;   // of each block
  std::int64_t half_ = 0;      // elements of a peer's staging before that of odd-numbered blocks
  std::int64_t stride_ = 0;    // elements of a peer's staging
  Tensor<Gradient> staging_;
  std::size_t next_ = 0;                   // block to fold
  std::array<std::int64_t, 2> arrived_{};  // peers whose block is there, of the next two blocks
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
