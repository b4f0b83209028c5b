#include <utility>

#include "comm/mpi/exchange.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/require.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

/// The overlap of each rank's chunk with each rank's intervals, sent in buffer order.
class ScatterChunks final : public Exchange {
 public:
  ScatterChunks(std::shared_ptr<Channel> channel, const SegmentTable& table, const float* sums, float* shard)
      : Exchange(std::move(channel), Purpose::reduce, segment_pace) {
    const Interval chunk = fold_chunk(table.size, rank(), size());
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size();
      const int from = (rank() + size() - i) % size();
      for (const Interval& interval : table.intervals[static_cast<std::size_t>(to)]) {
        const Interval part = intersect(chunk, interval);
        send(to, sums + (part.begin - chunk.begin), bytes_of(part));
      }
      const Interval theirs = fold_chunk(table.size, from, size());
      std::int64_t done = 0;
      for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank())]) {
        const Interval part = intersect(theirs, interval);
        receive(from, shard + done + (part.begin - interval.begin), bytes_of(part));
        done += interval.size();
      }
    }
  }
};

}  // namespace
}  // namespace mpi

Request scatter_chunks(Communicator& communicator, const SegmentTable& table, TensorView<const float> sums,
                       TensorView<float> shard, const OperationLabel& label) {
  const int rank = communicator.rank();
  const Interval chunk = fold_chunk(table.size, rank, communicator.size());
  require_ranks(table, communicator.size(), label);
  require_elements("the running sums", static_cast<std::int64_t>(sums.size()), chunk.size(), label);
  require_elements("the shard", static_cast<std::int64_t>(shard.size()), table.shard_size(rank), label);

  Kokkos::fence();  // a kernel may still be writing the sums (CASES 40)
  Request request = mpi::issue(
      std::make_shared<mpi::ScatterChunks>(communicator.implementation().channel, table, sums.data(), shard.data()),
      label);
  std::int64_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank)]) {
    const Interval part = intersect(chunk, interval);
    const std::int64_t to = done + (part.begin - interval.begin);
    const std::int64_t from = part.begin - chunk.begin;
    if (!part.empty() && shard.data() + to != sums.data() + from) {
      Kokkos::deep_copy(slice(shard, to, part.size()), slice(sums, from, part.size()));
    }
    done += interval.size();
  }
  return request;
}

}  // namespace matrixfsdp
