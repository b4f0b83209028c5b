#pragma once

#include <cstdint>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// Collectives over tables of segments (plan/segment_table.hpp). Both sides of every transfer read the same table, so
/// an empty interval is skipped by both. Results are the same bits whatever the sizes, the owners, the algorithm and W.
namespace matrixfsdp {

/// Unshard: `buffer` (table.size elements, the same on every rank when complete) from every rank's `shard`, as this
/// rank's `unshard` says. Gathers into place. Throws ContractError where the table has another number of ranks, or
/// shard or buffer another size.
Request gather(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label);

/// One pass of the reduction. Every rank holds the gradient of its micro-batch in `buffer`; rank r keeps the running
/// sums of chunk r of an even cut (fold_chunk in plan) in `sums` (chunk.size() elements). For each element of the own
/// chunk
///   first: sums = g_0, then sums += g_1, ..., sums += g_{W-1};   later passes: sums += g_0, ..., sums += g_{W-1}
/// in rank order, in float32: the left fold by micro-batch index = pass * W + rank (gradient order of DESIGN: equal
/// bits at any W). Other ranks' blocks arrive in staging of at most two blocks per peer, which the request owns.
Request fold_exchange(Communicator& communicator, std::int64_t size, bool first, TensorView<const float> buffer,
                      TensorView<float> sums, const OperationLabel& label);

/// After the last pass: chunks of the even cut go to the holders in `table`; `shard` receives this rank's intervals.
Request scatter_chunks(Communicator& communicator, const SegmentTable& table, TensorView<const float> sums,
                       TensorView<float> shard, const OperationLabel& label);

/// Staging bytes that fold_exchange holds on each rank, for the memory prediction.
std::int64_t fold_exchange_staging_bytes(std::int64_t size, int rank, int world_size);

}  // namespace matrixfsdp
