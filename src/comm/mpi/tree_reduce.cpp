#include "comm/mpi/tree_reduce.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "comm/fold.hpp"
#include "comm/mpi/segment_pace.hpp"

namespace matrixfsdp::mpi {
namespace {

/// In stages, each begun when all of the one before is there. Up: a rank takes the gradients of its subtree, behind one
/// another in the order of positions, and sends them on with its own in front; the root folds those of all ranks. Down,
/// after the last pass: a rank takes the sums for its subtree, in the same order, keeps its own and sends on the
/// others.
template <class Gradient>
class TreeReduce final : public Exchange {
 public:
  TreeReduce(std::shared_ptr<Channel> channel, const Reduce& reduce, Pass pass, const ReduceMemory& memory)
      : Exchange(std::move(channel), Purpose::reduce, {4 * reduce.message, 2}),
        table_(reduce.table),
        root_(reduce.root),
        sum_group_(reduce.sum_group),
        pass_(pass),
        place_(tree_position((rank() - root_ + size()) % size(), size())),
        gradients_(reinterpret_cast<const Gradient*>(memory.buffer)),
        memory_(memory) {
    const ReduceStaging staging = staging_of(reduce, rank());
    if (staging.gradients > 0) staging_ = make_tensor<Gradient>("matrixfsdp::reduce_staging", staging.gradients);
    if (staging.arriving > 0) sums_ = make_tensor<float>("matrixfsdp::reduce_sums", staging.arriving);
    for (const int child : place_.children)
      receive(rank_at(child), row_of(child), gradient_bytes() * tree_position(child, size()).size);
  }

 private:
  [[nodiscard]] bool is_root() const { return place_.parent < 0; }
  [[nodiscard]] int rank_at(int position) const { return (root_ + position) % size(); }
  [[nodiscard]] std::int64_t gradient_bytes() const {
    return static_cast<std::int64_t>(sizeof(Gradient)) * table_.size;
  }
  /// Of the gradient of `position`, of this subtree. The root's own stays in the buffer.
  [[nodiscard]] Gradient* row_of(int position) {
    return staging_.data() + (position - place_.position - (is_root() ? 1 : 0)) * table_.size;
  }
  [[nodiscard]] const std::array<Interval, 2>& intervals_at(int position) const {
    return table_.intervals[static_cast<std::size_t>(rank_at(position)) % table_.intervals.size()];
  }
  /// Elements that the `count` positions from `position` on own.
  [[nodiscard]] std::int64_t owned(int position, int count) const {
    std::int64_t elements = 0;
    for (int at = position; at < position + count; ++at)
      elements += intervals_at(at)[0].size() + intervals_at(at)[1].size();
    return elements;
  }

  bool next_stage() override {
    switch (stage_++) {
      case 0:
        if (is_root())
          fold();
        else
          send_up();
        return true;
      case 1:
        if (!pass_.last) return false;
        if (is_root())
          collect_sums();
        else
          receive(rank_at(place_.parent), sums_for_subtree(), float_bytes(owned(place_.position, place_.size)));
        return true;
      case 2:
        send_down();
        return true;
      default:
        return false;
    }
  }

  void send_up() {
    if (place_.children.empty()) {
      send(rank_at(place_.parent), gradients_, gradient_bytes());
      return;
    }
    copy(gradients_, table_.size, row_of(place_.position));
    send(rank_at(place_.parent), staging_.data(), gradient_bytes() * place_.size);
  }

  void fold() {
    const FoldBlockOf<Gradient> block{staging_.data(), table_.size, gradients_, root_, size()};
    float* open = memory_.sums + table_.size;
    fold_block(block, {memory_.sums, open, memory_.sums, open, pass_.number * size(), sum_group_}, table_.size);
  }

  /// Of all positions, in their order.
  void collect_sums() {
    float* to = sums_for_subtree();
    for (int position = 0; position < size(); ++position) {
      for (const Interval& interval : intervals_at(position)) {
        copy(memory_.sums + interval.begin, interval.size(), to);
        to += interval.size();
      }
    }
  }

  void send_down() {
    const std::int64_t mine = owned(place_.position, 1);
    if (sums_.size() > 0) copy(sums_.data(), mine, memory_.shard);
    for (const int child : place_.children) {
      const float* sums = sums_.data() + owned(place_.position, child - place_.position);
      send(rank_at(child), sums, float_bytes(owned(child, tree_position(child, size()).size)));
    }
  }

  /// A rank without children has only its own, and a job of one rank too.
  [[nodiscard]] float* sums_for_subtree() { return place_.size == 1 ? memory_.shard : sums_.data(); }
  static std::int64_t float_bytes(std::int64_t elements) { return static_cast<std::int64_t>(sizeof(float)) * elements; }
  template <class Value>
  static void copy(const Value* from, std::int64_t count, Value* to) {
    // Not a kernel: this may be a progress thread, and kernels belong to the thread that computes.
    std::copy_n(from, count, to);
  }

  SegmentTable table_;
  int root_;
  std::int64_t sum_group_;
  Pass pass_;
  TreePosition place_;
  const Gradient* gradients_;
  ReduceMemory memory_;
  Tensor<Gradient> staging_;  // of the subtree's gradients, by position
  Tensor<float> sums_;        // for the subtree
  int stage_ = 0;
};

}  // namespace

std::shared_ptr<Exchange> tree_reduce(const std::shared_ptr<Channel>& channel, const Reduce& reduce, Pass pass,
                                      const ReduceMemory& memory) {
  if (reduce.wire == DType::bfloat16) return std::make_shared<TreeReduce<bfloat16>>(channel, reduce, pass, memory);
  return std::make_shared<TreeReduce<float>>(channel, reduce, pass, memory);
}

}  // namespace matrixfsdp::mpi
