#include <utility>

#include "comm/mpi/exchange.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/table.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

/// Direct fan-out: each rank sends its intervals to every other rank, which receives them in place.
class Gather final : public Exchange {
 public:
  Gather(std::shared_ptr<Channel> channel, Purpose purpose, const SegmentTable& table, const float* shard,
         float* buffer)
      : Exchange(std::move(channel), purpose, segment_pace) {
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size();
      const int from = (rank() + size() - i) % size();
      const float* mine = shard;
      for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank())]) {
        send(to, mine, bytes_of(interval));
        mine += interval.size();
      }
      for (const Interval& interval : table.intervals[static_cast<std::size_t>(from)]) {
        receive(from, buffer + interval.begin, bytes_of(interval));
      }
    }
  }
};

}  // namespace
}  // namespace mpi

Request gather(Communicator& communicator, Purpose purpose, const SegmentTable& table, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label) {
  require_valid(table, communicator.size(), label);
  require_elements("the shard", static_cast<std::int64_t>(shard.size()), table.shard_size(communicator.rank()), label);
  require_elements("the buffer", static_cast<std::int64_t>(buffer.size()), table.size, label);

  Kokkos::fence();  // a kernel may still be writing the shard (CASES 40)
  Request request = mpi::issue(
      std::make_shared<mpi::Gather>(communicator.implementation().channel, purpose, table, shard.data(), buffer.data()),
      label);
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

}  // namespace matrixfsdp
