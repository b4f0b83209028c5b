#include "comm/mpi/reduce_position.hpp"

#include <utility>

#include "comm/mpi/segment_pace.hpp"

namespace matrixfsdp::mpi {
namespace {

const std::array<Interval, 2>& intervals_of(const Reduce& reduce, const ReducePosition& position) {
  return reduce.table.intervals[static_cast<std::size_t>(position.member)];
}

bool has_open_groups(const Reduce& reduce) {
  return reduce.open_between_runs || reduce.open_between_passes;
}

/// Where sums stand with their owner; groups that are open stand in `sums`, in the order of the shard.
SumPlace with_owner(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory,
                    const Piece& block) {
  const std::int64_t at = shard_position(intervals_of(reduce, position), block.elements.begin);
  return {memory.shard + at, reduce.open_between_passes ? memory.sums + at : nullptr};
}

/// Sums that pass through stand in the gradient's buffer, or where that holds words, in `passing`; open groups too.
/// In the last run they are folded to where their owner keeps them, if that is this rank.
void place_passing(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory, float* passing,
                   std::vector<HeldBlock>& held) {
  for (HeldBlock& mine : held) {
    const std::int64_t size = mine.block.elements.size();
    mine.place.sum = memory.buffer + mine.block.elements.begin;
    if (reduce.wire == DType::bfloat16) mine.place.sum = std::exchange(passing, passing + size);
    if (has_open_groups(reduce)) mine.place.open = std::exchange(passing, passing + size);
    const bool own = position.keeper(mine.block) == position.rank;
    if (position.first_run) mine.source = own ? -1 : position.keeper(mine.block);
    if (!own) continue;
    const SumPlace kept = with_owner(reduce, position, memory, mine.block);
    if (position.first_run) mine.onto = kept;
    if (!position.last_run) continue;
    mine.place.sum = kept.sum;
    if (kept.open != nullptr) mine.place.open = kept.open;
  }
  if (!position.last_run) return;
  std::size_t at = 0;
  const std::vector<OwnBlock> own = own_blocks(reduce, position, memory);
  for (HeldBlock& mine : held) {
    if (position.keeper(mine.block) != position.rank) continue;
    while (own[at].block.elements != mine.block.elements)
      ++at;
    mine.own = static_cast<std::int64_t>(at);
  }
}

/// Sums that stay: own elements' in the shard, others' in `sums`, and behind these the open groups of all, if they stay.
void place_staying(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory, float* passing,
                   std::vector<HeldBlock>& held) {
  float* sums = memory.sums;
  for (HeldBlock& mine : held) {
    if (mine.block.owner == position.member)
      mine.place.sum = memory.shard + shard_position(intervals_of(reduce, position), mine.block.elements.begin);
    else
      mine.place.sum = std::exchange(sums, sums + mine.block.elements.size());
  }
  float* open = reduce.open_between_passes ? sums : passing;
  for (HeldBlock& mine : held) {
    if (has_open_groups(reduce)) mine.place.open = std::exchange(open, open + mine.block.elements.size());
    mine.onto = mine.place;
  }
}

}  // namespace

ReducePosition::ReducePosition(const Reduce& reduce, const Pass& pass, int its_rank)
    : rank(its_rank),
      members(reduce.members()),
      member(its_rank % members),
      replicas(reduce.replicas),
      replica(its_rank / members),
      run(reduce.runs[reduce.run_of(its_rank)]),
      place(its_rank - run.first),
      first_run(run.first == 0),
      last_run(run.first + run.size == reduce.world_size()),
      summed(pass.number * reduce.world_size() + run.first),
      pass_begin(fold_state(pass.number * reduce.world_size(), reduce.sum_group)),
      before(fold_state(summed, reduce.sum_group)),
      after(fold_state(summed + run.size, reduce.sum_group)),
      pass_end(fold_state((pass.number + 1) * reduce.world_size(), reduce.sum_group)) {}

std::vector<HeldBlock> held_blocks(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory,
                                   float* passing) {
  std::vector<HeldBlock> held;
  for (const Piece& block : reduce.held_by(position.rank)) {
    held.push_back({block, {}, -1, {}, -1, -1});
    if (!position.first_run)
      held.back().source = reduce.holder_in(reduce.runs[reduce.run_of(position.run.first - 1)], block);
    if (!position.last_run)
      held.back().next = reduce.holder_in(reduce.runs[reduce.run_of(position.run.first + position.run.size)], block);
  }
  if (reduce.returns_sums())
    place_passing(reduce, position, memory, passing, held);
  else
    place_staying(reduce, position, memory, passing, held);
  return held;
}

std::vector<OwnBlock> own_blocks(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory) {
  std::vector<OwnBlock> own;
  if (!reduce.returns_sums()) return own;
  for (int rank = position.run.first; rank < position.run.first + position.run.size; ++rank) {
    for (const Piece& block : reduce.held_by(rank)) {
      if (block.owner != position.member) continue;
      own.push_back({block, with_owner(reduce, position, memory, block), reduce.holder_in(reduce.runs.front(), block),
                     reduce.holder_in(reduce.runs.back(), block)});
    }
  }
  return own;
}

}  // namespace matrixfsdp::mpi
