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

/// With whom the sums of a block stand between passes.
int keeper_of(const Reduce& reduce, const ReducePosition& position, const Piece& block) {
  return reduce.returns_sums() ? position.owner_in(position.replicas - 1, block)
                               : reduce.holder_in(reduce.runs.front(), block);
}

int holder_in(const Reduce& reduce, int run, const Piece& block) {
  return reduce.holder_in(reduce.runs[static_cast<std::size_t>(run)], block);
}

/// Where sums stand with their owner; groups that are open stand in `sums`, in the order of the shard.
SumPlace with_owner(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory,
                    const Piece& block) {
  const std::int64_t at = shard_position(intervals_of(reduce, position), block.elements.begin);
  return {memory.shard + at, reduce.open_between_passes ? memory.sums + at : nullptr};
}

/// Who gives and gets what in this pass, its keeper too.
void find_peers(const Reduce& reduce, const ReducePosition& position, const Pass& pass, HeldBlock& mine) {
  const auto number = static_cast<int>(position.run_number);
  const int keeper = keeper_of(reduce, position, mine.block);
  if (position.before.open) mine.source.open = number > 0 ? holder_in(reduce, number - 1, mine.block) : keeper;
  const bool open_after = fold_state(position.summed + position.run.size, reduce.sum_group).open;
  if (open_after) mine.next.open = position.last_run ? keeper : holder_in(reduce, number + 1, mine.block);
  if (!position.completes) return;
  const int before = reduce.completing_before(position.run_number, pass.number);
  if (position.before.sum) mine.source.sum = before >= 0 ? holder_in(reduce, before, mine.block) : keeper;
  const int after = reduce.completing_from(position.run_number + 1, pass.number);
  mine.at_end = after < 0;
  mine.next.sum = mine.at_end ? keeper : holder_in(reduce, after, mine.block);
}

/// What this rank gives to itself, or gets from itself, stands at `kept`, and does not travel.
void keep(const ReducePosition& position, const SumPlace& kept, HeldBlock& mine) {
  const auto stay = [&position](int& peer, float* place, float*& to) {
    if (peer != position.rank) return;
    to = place;
    peer = -1;
  };
  stay(mine.source.sum, kept.sum, mine.onto.sum);
  stay(mine.source.open, kept.open, mine.onto.open);
  stay(mine.next.sum, kept.sum, mine.place.sum);
  stay(mine.next.open, kept.open, mine.place.open);
}

/// Sums that pass through stand in the gradient's buffer, or where that holds words, in `passing`; open groups too.
void place_passing(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory, float* passing,
                   std::vector<HeldBlock>& held) {
  const std::vector<OwnBlock> own = own_blocks(reduce, position, memory);
  std::size_t at = 0;
  for (HeldBlock& mine : held) {
    const std::int64_t size = mine.block.elements.size();
    mine.place.sum = memory.buffer + mine.block.elements.begin;
    if (reduce.wire == DType::bfloat16) mine.place.sum = std::exchange(passing, passing + size);
    if (has_open_groups(reduce)) mine.place.open = std::exchange(passing, passing + size);
    if (keeper_of(reduce, position, mine.block) != position.rank) continue;
    while (own[at].block.elements != mine.block.elements)
      ++at;
    mine.own = static_cast<std::int64_t>(at);
    mine.folds_over = mine.next.sum == position.rank || mine.next.open == position.rank;
    keep(position, own[at].place, mine);
  }
}

/// Sums that stay: own elements' in the shard, others' in `sums`, and behind these the open groups of all, if they
/// stay.
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
    keep(position, SumPlace(mine.place), mine);
  }
}

}  // namespace

ReducePosition::ReducePosition(const Reduce& reduce, const Pass& pass, int its_rank)
    : rank(its_rank),
      members(reduce.members()),
      member(its_rank % members),
      replicas(reduce.replicas),
      replica(its_rank / members),
      run_number(reduce.run_of(its_rank)),
      run(reduce.runs[run_number]),
      place(its_rank - run.first),
      last_run(run_number + 1 == reduce.runs.size()),
      summed(pass.number * reduce.world_size() + run.first),
      before(fold_state(summed, reduce.sum_group)),
      pass_begin(fold_state(pass.number * reduce.world_size(), reduce.sum_group)),
      pass_end(fold_state((pass.number + 1) * reduce.world_size(), reduce.sum_group)),
      completes(reduce.completes(run_number, pass.number)),
      first_completing(reduce.completing_from(0, pass.number)),
      last_completing(reduce.completing_before(reduce.runs.size(), pass.number)) {}

std::vector<HeldBlock> held_blocks(const Reduce& reduce, const ReducePosition& position, const Pass& pass,
                                   const ReduceMemory& memory, float* passing) {
  std::vector<HeldBlock> held;
  for (const Piece& block : reduce.held_by(position.rank)) {
    held.emplace_back().block = block;
    find_peers(reduce, position, pass, held.back());
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
  const auto last_run = static_cast<int>(reduce.runs.size()) - 1;
  for (int rank = position.run.first; rank < position.run.first + position.run.size; ++rank) {
    for (const Piece& block : reduce.held_by(rank)) {
      if (block.owner != position.member) continue;
      OwnBlock mine{block, with_owner(reduce, position, memory, block), {}, {}};
      if (position.pass_begin.sum && position.first_completing >= 0)
        mine.to.sum = holder_in(reduce, position.first_completing, block);
      if (position.pass_begin.open) mine.to.open = holder_in(reduce, 0, block);
      if (position.last_completing >= 0) mine.from.sum = holder_in(reduce, position.last_completing, block);
      if (position.pass_end.open) mine.from.open = holder_in(reduce, last_run, block);
      own.push_back(mine);
    }
  }
  return own;
}

}  // namespace matrixfsdp::mpi
