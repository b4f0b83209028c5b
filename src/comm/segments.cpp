#include "comm/mpi/segments.hpp"

#include <matrixfsdp/comm/segments.hpp>

#include "comm/require.hpp"

namespace matrixfsdp {

Request gather(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label) {
  const SegmentTable& table = unshard.table;
  require_ranks(table, communicator.size(), label);
  require_elements("the shard", static_cast<std::int64_t>(shard.size()), table.shard_size(communicator.rank()), label);
  require_elements("the buffer", static_cast<std::int64_t>(buffer.size()), table.size, label);

  Kokkos::fence();  // a kernel may still be writing the shard (CASES 40)
  Request request =
      mpi::gather(communicator.implementation().channel, purpose, unshard, shard.data(), buffer.data(), label);
  std::int64_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(communicator.rank())]) {
    // A single rank may pass its buffer as its shard.
    if (!interval.empty() && shard.data() + done != buffer.data() + interval.begin) {
      Kokkos::deep_copy(slice(buffer, interval.begin, interval.size()), slice(shard, done, interval.size()));
    }
    done += interval.size();
  }
  return request;
}

Request reduce(Communicator& communicator, const Reduce& prepared, Pass pass, TensorView<const float> buffer,
               TensorView<float> sums, TensorView<float> shard, const OperationLabel& label) {
  const int rank = communicator.rank();
  require_ranks(prepared.table, communicator.size(), label);
  require_elements("the gradient", static_cast<std::int64_t>(buffer.size()), prepared.table.size, label);
  require_elements("the running sums", static_cast<std::int64_t>(sums.size()), running_sum_elements(prepared, rank),
                   label);
  require_elements("the shard", static_cast<std::int64_t>(shard.size()), prepared.table.shard_size(rank), label);

  Kokkos::fence();  // a kernel may still be writing the gradient (CASES 40)
  return mpi::reduce(communicator.implementation().channel, prepared, pass, buffer.data(), sums.data(), shard.data(),
                     label);
}

}  // namespace matrixfsdp
