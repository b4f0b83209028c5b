#pragma once

#include <cstdint>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// Collectives over tables of segments (plan/segment_table.hpp). Both sides of every transfer read the same table, so
/// an empty interval is skipped by both. Results are the same bits whatever the sizes, the owners, the algorithm and W.
namespace matrixfsdp {

/// Unshard: `buffer` (table.size elements, the same on every rank when complete) from every rank's `shard`, as this
/// rank's `unshard` says. Gathers into place. With unshard.wire bfloat16 every element is rounded by its owner, travels
/// as 16 bits in the buffer's upper half, and stands widened in the buffer, on its owner too; `shard`, which lies
/// outside of the buffer, keeps its values. Throws ContractError where the table has another number of ranks, shard or
/// buffer another size, or the shard lies in the buffer and bfloat16 travels.
Request gather(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label);

/// Which pass of a step a reduce is: the first starts the sums, after the last they go to the owners.
struct Pass {
  bool first = true;
  bool last = true;
};

/// Reduce: every rank holds the gradient of its micro-batch in `buffer` (table.size elements). Whoever holds an element
/// (its owner, or a helper) sums it
///   first: s = g_0, then s += g_1, ..., s += g_{W-1};   later passes: s += g_0, ..., s += g_{W-1}
/// in rank order, in float32: the left fold by micro-batch index = pass * W + rank, so the bits do not depend on the
/// owners, the holders or W. Sums of own elements stand in `shard` (of the table), from the first pass on; those of
/// others in `sums` (running_sum_elements) until the last pass brings them to their owners' shards. Others' gradients
/// arrive in staging of at most two blocks per peer, which the request owns. With prepared.wire bfloat16 the g_r are
/// gradients that were rounded once, on the rank that has them, and `buffer` is overwritten. Throws ContractError where
/// the table has another number of ranks, or buffer, sums or shard another size.
Request reduce(Communicator& communicator, const Reduce& prepared, Pass pass, TensorView<float> buffer,
               TensorView<float> sums, TensorView<float> shard, const OperationLabel& label);

}  // namespace matrixfsdp
