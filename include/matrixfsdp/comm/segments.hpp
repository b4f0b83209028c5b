#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// Collectives over tables of segments. Both sides of every transfer read the same table, so an empty interval is
/// skipped by both. Results are the same bits whatever the sizes, the owners and W.
namespace matrixfsdp {

/// For each rank, its (at most two) intervals of a flat buffer, in buffer order. A rank's shard is its first interval
/// followed by its second. Intervals of different ranks do not overlap; together they cover [0, size).
struct SegmentTable {
  std::int64_t size = 0;
  std::vector<std::array<Interval, 2>> intervals;

  [[nodiscard]] std::int64_t shard_size(int rank) const {
    const auto& mine = intervals[static_cast<std::size_t>(rank)];
    return mine[0].size() + mine[1].size();
  }
};

/// Unshard: `buffer` (table.size elements, the same on every rank when complete) from every rank's `shard`. Gathers
/// into place. This rank sends shard_size * (W - 1) elements.
Request gather(Communicator& communicator, Purpose purpose, const SegmentTable& table, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label);

/// Elements of one message of `fold_exchange` and of `scatter_chunks`, at most.
inline constexpr std::int64_t exchange_block = 32 * 1024;

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

/// The even cut as a table, so that `gather` brings all chunks to every rank (ddp).
SegmentTable even_table(std::int64_t size, int world_size);

/// Staging bytes that fold_exchange holds on each rank, for the memory prediction.
std::int64_t fold_exchange_staging_bytes(std::int64_t size, int rank, int world_size);

}  // namespace matrixfsdp
