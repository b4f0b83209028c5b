#pragma once

#include <vector>

#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp::detail {

/// Runs of neighbouring ranks (struct Reduce) by `algorithm`, of all ranks of `topology`, `members` to a shard group.
std::vector<RankGroup> runs_of(CollectiveAlgorithm algorithm, const Topology& topology, int members);

/// Fills `blocks` and `list_of` of a reduce that returns sums: `table` and `runs` are there.
void share_evenly(Reduce& reduce);

/// Fills `blocks`, `list_of` and `root` of a reduce by tree.
void give_all_to_root(Reduce& reduce);

}  // namespace matrixfsdp::detail
