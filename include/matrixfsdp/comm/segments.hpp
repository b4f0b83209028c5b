#pragma once

#include <cstdint>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

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
  bool first = true;
  bool last = true;
};

/// Reduce: every rank holds the gradient of its micro-batch in `buffer` (table.size elements). Whoever holds an element
/// (its owner, or a helper) sums it
///   first: s = g_0, then s += g_1, ..., s += g_{W-1};   later passes: s += g_0, ..., s += g_{W-1}
/// in rank order, in float32: the left fold by micro-batch index = pass * W + rank, so the bits do not depend on the
/// owners, the holders or W. Of several replicas (shard groups, one after the other: hybrid sharding, Zhao et al. 2023,
/// "PyTorch FSDP") each group has holders and owners; a group sums onto the sums of the group before, the last one's go
/// to the owners of all: the same fold over all ranks, and between groups each sum travels once in each direction.
/// Sums of own elements stand in `shard` (of the table), from the first pass on; those of
/// others in `sums` (running_sum_elements) until the last pass brings them to their owners' shards. Others' gradients
/// arrive in staging of at most two blocks per peer, which the request owns. With prepared.wire bfloat16 the g_r are
/// gradients that were rounded once, on the rank that has them, and `buffer` is overwritten. Throws ContractError where
/// table and replicas are not for as many ranks as the communicator has, or buffer, sums or shard another size.
Request reduce(Communicator& communicator, const Reduce& prepared, Pass pass, TensorView<float> buffer,
               TensorView<float> sums, TensorView<float> shard, const OperationLabel& label);

}  // namespace matrixfsdp
