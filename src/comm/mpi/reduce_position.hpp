#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/comm/segments.hpp>

namespace matrixfsdp::mpi {

/// Where a rank stands in one pass of a reduce.
struct ReducePosition {
  ReducePosition(const Reduce& reduce, const Pass& pass, int its_rank);

  [[nodiscard]] int owner_in(int group, const Piece& block) const { return group * members + block.owner; }
  /// The owner with whom sums stand between passes, where they are returned.
  [[nodiscard]] int keeper(const Piece& block) const { return owner_in(replicas - 1, block); }

  int rank;
  int members;   ///< of a shard group
  int member;    ///< this rank in its group
  int replicas;  ///< shard groups
  int replica;   ///< this rank's
  RankGroup run;
  int place;  ///< in the run
  bool first_run;
  bool last_run;
  std::int64_t summed;   ///< micro-batches before this run's
  FoldState pass_begin;  ///< what the pass starts with
  FoldState before;      ///< what this run adds to
  FoldState after;       ///< and leaves
  FoldState pass_end;
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

/// A block that this rank holds.
struct HeldBlock {
  Piece block;
  SumPlace place;   ///< where it is folded
  int source = -1;  ///< from whom what it is folded onto comes; -1: it stands at `onto`, or does not exist
  SumPlace onto;
  int next = -1;          ///< who folds onto it in the next run; -1: this is the last one
  std::int64_t own = -1;  ///< number in own_blocks, where the last run folds it to its owner's place
};

/// Of `passing` as staging_of says.
std::vector<HeldBlock> held_blocks(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory,
                                   float* passing);

/// A block of this rank's own elements, where their sums are returned.
struct OwnBlock {
  Piece block;
  SumPlace place;        ///< where sums stand between passes, and come to
  int first_holder = 0;  ///< who needs them at the beginning of a pass
  int last_holder = 0;   ///< who has them at its end
};

/// In the order in which holders send them; none where sums stay with holders.
std::vector<OwnBlock> own_blocks(const Reduce& reduce, const ReducePosition& position, const ReduceMemory& memory);

}  // namespace matrixfsdp::mpi
