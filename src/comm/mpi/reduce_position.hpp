#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/comm/segments.hpp>

namespace matrixfsdp::mpi {

/// Where a rank stands in one pass of a reduce.
struct ReducePosition {
  ReducePosition(const Reduce& reduce, const Pass& pass, int its_rank);

  [[nodiscard]] int owner_in(int group, const Piece& block) const { return group * members + block.owner; }

  int rank;
  int members;   ///< of a shard group
  int member;    ///< this rank in its group
  int replicas;  ///< shard groups
  int replica;   ///< this rank's
  std::size_t run_number;
  RankGroup run;
  int place;  ///< in the run
  bool last_run;
  std::int64_t summed;   ///< micro-batches before this run's
  FoldState before;      ///< what there is then
  FoldState pass_begin;  ///< and before the pass
  FoldState pass_end;
  bool completes;        ///< a group of the sum, with the gradients of this run
  int first_completing;  ///< run of this pass; -1: none
  int last_completing;
};

/// The caller's memory.
struct ReduceMemory {
  float* buffer;
  float* sums;
  float* shard;
};

/// Where sums stand; null for what fold_state says does not exist.
struct SumPlace {
  float* sum = nullptr;
  float* open = nullptr;
};

/// Ranks that give or get the two parts of a sum; -1: nobody.
struct SumPeers {
  int sum = -1;
  int open = -1;
};

/// A block that this rank holds.
struct HeldBlock {
  Piece block;
  SumPlace place;           ///< where it is folded
  SumPeers source;          ///< from whom what it is folded onto comes; nobody: it stands at `onto`, or does not exist
  SumPlace onto;            ///< of sums that this rank keeps
  SumPeers next;            ///< who folds onto it in this pass, or keeps it after that
  bool at_end = false;      ///< next.sum keeps it, or the owners get it
  std::int64_t own = -1;    ///< number in own_blocks, where this rank keeps its sums
  bool folds_over = false;  ///< it is folded to where this rank keeps it
};

/// Of `passing` as staging_of says.
std::vector<HeldBlock> held_blocks(const Reduce& reduce, const ReducePosition& position, const Pass& pass,
                                   const ReduceMemory& memory, float* passing);

/// A block of this rank's own elements, where their sums are returned.
struct OwnBlock {
  Piece block;
  SumPlace place;  ///< where sums stand between passes, and come to
  SumPeers to;     ///< who needs them in this pass
  SumPeers from;   ///< and from whom they come at its end
};

/// In the order in which holders send them; none where sums stay with holders.
std::vector<OwnBlock> own_blocks(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory);

}  // namespace matrixfsdp::mpi
