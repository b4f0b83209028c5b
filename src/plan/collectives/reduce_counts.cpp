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
        pass_(pass),
        last_(pass + 1 == reduce.passes) {
    for (const auto& blocks : reduce.blocks) {
      loads_.emplace_back();
      for (const Piece& block : blocks)
        loads_.back() += load_of(block.elements.size(), reduce_.message);
    }
  }

  std::vector<TransferCounts> counts() {
    if (reduce_.algorithm == CollectiveAlgorithm::tree) {
      count_tree();
      return std::move(counter_.counts);
    }
    for (const RankGroup& run : reduce_.runs)
      count_gradients(run);
    count_sums();
    count_kept_sums();
    if (last_) count_owners();
    return std::move(counter_.counts);
  }

 private:
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

  /// What one run gives to another.
  void count_sums_between(const RankGroup& run, const RankGroup& next) {
    for (int rank = run.first; rank < run.first + run.size; ++rank) {
      if (run.size == next.size || !reduce_.returns_sums()) {
        pass(rank, next.first + rank - run.first, held_by(rank));
        continue;
      }
      for (const Piece& block : reduce_.held_by(rank))
        pass(rank, reduce_.holder_in(next, block), load_of(block.elements.size(), reduce_.message));
    }
  }

  /// Groups that are open from each run to the next, the sum of complete ones from one that completes some to another.
  void count_sums() {
    int before = -1;
    for (std::size_t i = 0; i < reduce_.runs.size(); ++i) {
      const RankGroup& run = reduce_.runs[i];
      if (i > 0 && fold_state(begin_ + run.first, reduce_.sum_group).open) count_sums_between(reduce_.runs[i - 1], run);
      if (!reduce_.completes(i, pass_)) continue;
      if (before >= 0) count_sums_between(reduce_.runs[static_cast<std::size_t>(before)], run);
      before = static_cast<int>(i);
    }
  }

  /// Between passes sums stand with their owners in the last shard group, or with the holders of the first run.
  void count_kept_sums() {
    const FoldState begin = fold_state(begin_, reduce_.sum_group);
    const FoldState end = fold_state(end_, reduce_.sum_group);
    const std::size_t runs = reduce_.runs.size();
    const int first = reduce_.completing_from(0, pass_);
    const int last = reduce_.completing_before(runs, pass_);
    if (begin.sum && first >= 0) count_to_run(static_cast<std::size_t>(first));
    if (begin.open) count_to_run(0);
    if (last >= 0 && (!last_ || reduce_.returns_sums())) count_from_run(static_cast<std::size_t>(last));
    if (end.open) count_from_run(runs - 1);
  }

  template <class Visit>
  void each_block(const RankGroup& run, const Visit& visit) {
    for (int rank = run.first; rank < run.first + run.size; ++rank) {
      for (const Piece& block : reduce_.held_by(rank))
        visit(rank, block, load_of(block.elements.size(), reduce_.message));
    }
  }
  [[nodiscard]] int keeper(const Piece& block) const {
    return reduce_.returns_sums() ? owner_in(reduce_.replicas - 1, block)
                                  : reduce_.holder_in(reduce_.runs.front(), block);
  }
  void count_to_run(std::size_t run) {
    each_block(reduce_.runs[run],
               [this](int rank, const Piece& block, const Load& load) { pass(keeper(block), rank, load); });
  }
  void count_from_run(std::size_t run) {
    each_block(reduce_.runs[run],
               [this](int rank, const Piece& block, const Load& load) { pass(rank, keeper(block), load); });
  }

  /// From owner to owner, one shard group after the other, or from the holders of the last run to all.
  void count_owners() {
    each_block(reduce_.runs.back(), [this](int rank, const Piece& block, const Load& load) {
      for (int replica = 0; replica < reduce_.replicas; ++replica) {
        const int owner = owner_in(replica, block);
        if (!reduce_.returns_sums())
          pass(rank, owner, load);
        else if (replica > 0)
          pass(owner, owner - reduce_.members(), load);
      }
    });
  }

  void count_tree() {
    const int ranks = reduce_.world_size();
    const auto rank_at = [&](int position) { return (reduce_.root + position) % ranks; };
    for (int position = 1; position < ranks; ++position) {
      const TreePosition place = tree_position(position, ranks);
      pass(rank_at(position), rank_at(place.parent), load_of(place.size * reduce_.table.size, reduce_.message));
      std::int64_t owned = 0;
      for (int below = position; last_ && below < position + place.size; ++below)
        owned += reduce_.table.shard_size(rank_at(below) % reduce_.members());
      pass(rank_at(place.parent), rank_at(position), load_of(owned, reduce_.message));
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
  std::int64_t pass_;
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
