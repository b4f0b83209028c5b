#pragma once

#include <vector>

#include <matrixfsdp/fsdp/sharded_model.hpp>

/// The gradient's norm over row shards, whose cuts are not those of norm blocks: the rank that holds a block's first
/// element sums the block, and gets the rest of it from the others (less than a block for each segment).
namespace matrixfsdp {

/// Sums of the blocks that begin on this rank, in canonical order. Collective in the shard group.
std::vector<double> row_square_sums(const ShardedModel& model);

/// Canonical fold of what row_square_sums has returned on each rank of the shard group; may be followed by more.
double fold_row_sums(const ShardedModel& model, const std::vector<std::vector<double>>& sums);

}  // namespace matrixfsdp
