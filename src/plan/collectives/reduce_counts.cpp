#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/collectives/counter.hpp"

namespace matrixfsdp {
namespace {

using detail::Counter;
using detail::Load;
using detail::load_of;
using detail::NodePlaces;

/// One pass of one reduce, by what its struct says.
class PassCounts {
 public:
  PassCounts(const Reduce& reduce, const Topology& topology, std::int64_t pass)
      : reduce_(reduce),
        places_(topology),
        counter_(static_cast<std::size_t>(topology.world_size()), places_),
        begin_(pass * reduce.world_size()),
        end_(begin_ + reduce.world_size()),
        first_(pass == 0),
        last_(pass + 1 == reduce.passes) {
    for (const auto& blocks : reduce.blocks) {
      loads_.emplace_back();
      for (const Piece& block : blocks)
        loads_.back() += load_of(block.elements.size(), exchange_block);
    }
  }

  std::vector<TransferCounts> counts() {
    if (reduce_.algorithm == CollectiveAlgorithm::tree) {
      count_tree();
      return std::move(counter_.counts);
    }
    for (const RankGroup& run : reduce_.runs)
      count_gradients(run);
    for (std::size_t i = 0; i + 1 < reduce_.runs.size(); ++i)
      count_sums_between(reduce_.runs[i], reduce_.runs[i + 1]);
    count_owners();
    return std::move(counter_.counts);
  }

 private:
  [[nodiscard]] std::int64_t parts_after(std::int64_t summed) const {
    return fold_state(summed, reduce_.sum_group).parts();
  }
  [[nodiscard]] int owner_in(int replica, const Piece& block) const {
    return replica * reduce_.members() + block.owner;
  }
  [[nodiscard]] const Load& held_by(int rank) const {
    return loads_[static_cast<std::size_t>(reduce_.list_of[static_cast<std::size_t>(rank)])];
  }
  void pass(int from, int to, const Load& load) {
    if (from != to && load.elements > 0) counter_.pass(from, to, load);
  }

  /// Every rank of a run sends each of its holders what that one holds.
  void count_gradients(const RankGroup& run) {
    std::vector<Load> held_on(places_.ranks_on.size());
    std::vector<std::int64_t> ranks_on(places_.ranks_on.size(), 0);
    Load all;
    for (int rank = run.first; rank < run.first + run.size; ++rank) {
      const Load& held = held_by(rank);
      held_on[node_of(rank)] += held;
      ++ranks_on[node_of(rank)];
      all += held;
    }
    for (int rank = run.first; rank < run.first + run.size; ++rank) {
      const Load& held = held_by(rank);
      const Load& near = held_on[node_of(rank)];
      counter_.send(rank, near - held, 1, 0);
      counter_.send(rank, all - near, 0, 1);
      counter_.receive(rank, held.elements * (run.size - 1), held.elements * (run.size - ranks_on[node_of(rank)]));
    }
  }

  void count_sums_between(const RankGroup& run, const RankGroup& next) {
    const std::int64_t parts = parts_after(begin_ + next.first);
    for (int rank = run.first; rank < run.first + run.size; ++rank) {
      if (run.size == next.size || !reduce_.returns_sums()) {
        pass(rank, next.first + rank - run.first, held_by(rank) * parts);
        continue;
      }
      for (const Piece& block : reduce_.held_by(rank))
        pass(rank, reduce_.holder_in(next, block), load_of(block.elements.size(), exchange_block) * parts);
    }
  }

  /// From the last run, and before it to the first one.
  void count_owners() {
    const RankGroup& last_run = reduce_.runs.back();
    for (int rank = last_run.first; rank < last_run.first + last_run.size; ++rank) {
      for (const Piece& block : reduce_.held_by(rank)) {
        const Load load = load_of(block.elements.size(), exchange_block);
        if (reduce_.returns_sums())
          count_returned(rank, block, load);
        else
          count_kept(rank, block, load);
      }
    }
  }

  /// To the owner of the last shard group, who gives the result to that of the group before; back for the next pass.
  void count_returned(int holder, const Piece& block, const Load& load) {
    const int owner = owner_in(reduce_.replicas - 1, block);
    pass(holder, owner, load * parts_after(end_));
    for (int replica = reduce_.replicas - 1; last_ && replica > 0; --replica)
      pass(owner_in(replica, block), owner_in(replica - 1, block), load);
    if (!first_) pass(owner, reduce_.holder_in(reduce_.runs.front(), block), load * parts_after(begin_));
  }

  /// To all owners after the last pass; before, to where the next one begins.
  void count_kept(int holder, const Piece& block, const Load& load) {
    if (!last_) pass(holder, reduce_.holder_in(reduce_.runs.front(), block), load * parts_after(end_));
    for (int replica = 0; last_ && replica < reduce_.replicas; ++replica)
      pass(holder, owner_in(replica, block), load);
  }

  void count_tree() {
    const int ranks = reduce_.world_size();
    const auto rank_at = [&](int position) { return (reduce_.root + position) % ranks; };
    for (int position = 1; position < ranks; ++position) {
      const TreePosition place = tree_position(position, ranks);
      pass(rank_at(position), rank_at(place.parent), load_of(place.size * reduce_.table.size, exchange_block));
      std::int64_t owned = 0;
      for (int below = position; last_ && below < position + place.size; ++below)
        owned += reduce_.table.shard_size(rank_at(below) % reduce_.members());
      pass(rank_at(place.parent), rank_at(position), load_of(owned, exchange_block));
    }
  }

  [[nodiscard]] std::size_t node_of(int rank) const {
    return static_cast<std::size_t>(places_.node[static_cast<std::size_t>(rank)]);
  }

  const Reduce& reduce_;
  NodePlaces places_;
  Counter counter_;
  std::int64_t begin_;  // micro-batches summed before this pass
  std::int64_t end_;    // and after it
  bool first_;
  bool last_;
  std::vector<Load> loads_;  // of each list of blocks
};

}  // namespace

std::vector<TransferCounts> reduce_counts(const Reduce& reduce, const Topology& topology, std::int64_t pass) {
  if (topology.world_size() != reduce.world_size()) {
    throw ContractError(fmt::format("reduce of {} ranks: the topology has {}: expected the same", reduce.world_size(),
                                    topology.world_size()));
  }
  if (pass < 0 || pass >= reduce.passes)
    throw ContractError(fmt::format("pass {} of a reduce: expected one of {}, from 0", pass, reduce.passes));
  return PassCounts(reduce, topology, pass).counts();
}

}  // namespace matrixfsdp
