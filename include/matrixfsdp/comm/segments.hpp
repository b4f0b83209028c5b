#pragma once

#include <cstdint>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// Collectives over tables of segments (plan/segment_table.hpp). Both sides of every transfer read the same table, so
/// an empty interval is skipped by both. Results are the same bits whatever the sizes, the owners, the algorithm and W.
namespace matrixfsdp {

/// Unshard: `buffer` (table.size elements, the same on every rank when complete) from every rank's `shard`, as this
/// rank's `unshard` says. Gathers into place. The table may be of a group of the
/// communicator's ranks, from unshard.first_rank on; all ranks issue, each of one group. With unshard.wire bfloat16
/// every element is rounded by its owner, travels as 16 bits in the buffer's upper half, and stands widened in the
/// buffer, on its owner too; `shard`, which lies outside of the buffer, keeps its values. Throws ContractError where
/// this rank is not of the table's group, the group is not all ranks and the algorithm is allgatherv, shard or buffer
/// has another size, or the shard lies in the buffer and bfloat16 travels.
Request gather(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label);

/// As gather, where own segments stand in `buffer` already: weights that every rank keeps whole. float32 only, by MPI
/// whatever backend is attached. Throws ContractError as gather does, and for bfloat16.
Request gather_in_place(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<float> buffer,
                        const OperationLabel& label);

/// Which pass of a step a reduce is: the first starts the sums, after the last they go to the owners.
struct Pass {
  std::int64_t number = 0;  ///< 0, 1, ... within the step
  bool last = true;         ///< no other pass of the step follows
};

/// Reduce: every rank holds the gradient of its micro-batch in `buffer` (table.size elements). With the index
/// pass * W + rank of a micro-batch (W all ranks) every element becomes
///   s = g_0, then s += g_1, s += g_2, ...
/// in float32: the left fold, so the bits do not depend on owners, algorithm, passes or W. With prepared.sum_group g >
/// 1 the left folds of every g consecutive indices are summed in the same way. Whoever holds an element (struct Reduce:
/// its owner, a helper, one rank of every node, every rank) adds the gradients of its run to the sum of the run before
/// it. Of several replicas (shard groups, one after the other: hybrid sharding, Zhao et al. 2023, "PyTorch FSDP") every
/// group has owners, and all get the sum of all ranks; between groups each sum travels once in each direction. The sums
/// stand in `shard` (of the table) after the last pass; before, direct and scatter keep sums of own elements there and
/// those of others in `sums`, tree all of them in the `sums` of one rank; chain and hierarchical bring them to the
/// shards of the last shard group after every pass. `sums` (running_sum_elements) is kept from pass to pass. What
/// arrives of others stands in staging (staging_of), which the request owns. Overwrites `buffer` by chain and
/// hierarchical, whose sums pass through it, and with prepared.wire bfloat16: then the g_r are gradients that were
/// rounded once, on the rank that has them. A backend attached to the communicator carries float32 by direct and
/// scatter, of one shard group, where no group of the sum is open after a pass; MPI carries everything else. Throws
/// ContractError where table and replicas are not for as many ranks as the communicator has, buffer, sums or shard
/// have another size, or sums have groups and the step that `prepared` is for does not have that pass.
Request reduce(Communicator& communicator, const Reduce& prepared, Pass pass, TensorView<float> buffer,
               TensorView<float> sums, TensorView<float> shard, const OperationLabel& label);

}  // namespace matrixfsdp
