#include "comm/mpi/segments.hpp"

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/tensor/wire.hpp>

#include "comm/require.hpp"
#include "comm/segment_backend.hpp"

namespace matrixfsdp {
namespace {

/// Who carries segments of `table` instead of MPI; null: MPI does, as it always does inside a smaller group of ranks,
/// and for bfloat16.
SegmentBackend* backend_for(Communicator& communicator, const SegmentTable& table, DType wire) {
  SegmentBackend* backend = communicator.implementation().segments.get();
  const bool everybody = table.intervals.size() == static_cast<std::size_t>(communicator.size());
  return backend != nullptr && backend->attached() && everybody && wire == DType::float32 ? backend : nullptr;
}

/// The same for a reduce: backends keep sums with the holders of one run, and know no groups that stay open.
SegmentBackend* backend_for(Communicator& communicator, const Reduce& reduce) {
  const bool holders_keep =
      reduce.algorithm == CollectiveAlgorithm::direct || reduce.algorithm == CollectiveAlgorithm::scatter;
  if (!holders_keep || reduce.open_between_passes) return nullptr;
  return backend_for(communicator, reduce.table, reduce.wire);
}

/// Own segments to their place in `whole`, which is the buffer, or its words.
template <class Values, class Copy>
void place_own(const std::array<Interval, 2>& mine, const TensorView<const float>& shard, const Values& whole,
               const Copy& copy) {
  std::int64_t done = 0;
  for (const Interval& interval : mine) {
    if (!interval.empty()) copy(slice(shard, done, interval.size()), slice(whole, interval.begin, interval.size()));
    done += interval.size();
  }
}

}  // namespace

Request gather(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label) {
  const SegmentTable& table = unshard.table;
  require_group(unshard, communicator, label);
  const int member = communicator.rank() - unshard.first_rank;
  require_elements("the shard", static_cast<std::int64_t>(shard.size()), table.shard_size(member), label);
  require_elements("the buffer", static_cast<std::int64_t>(buffer.size()), table.size, label);

  if (SegmentBackend* backend = backend_for(communicator, table, unshard.wire))
    return backend->gather(purpose, unshard, shard.data(), buffer.data(), label);
  const auto& mine = table.intervals[static_cast<std::size_t>(member)];
  const auto issue = [&] {
    return mpi::gather(communicator.implementation().channel, purpose, unshard, shard.data(), buffer.data(), label);
  };
  Kokkos::fence();  // a kernel may still be writing the shard (CASES 40)
  if (unshard.wire == DType::bfloat16) {
    require_apart(shard, buffer, label);
    place_own(mine, shard, upper_words(buffer), round_to_words);
    return issue();
  }
  const auto copy = [](const TensorView<const float>& from, const TensorView<float>& to) {
    // A single rank may pass its buffer as its shard.
    if (from.data() != to.data()) Kokkos::deep_copy(to, from);
  };
  if (unshard.algorithm == CollectiveAlgorithm::allgatherv) {  // MPI takes own segments from the buffer
    place_own(mine, shard, buffer, copy);
    return issue();
  }
  Request request = issue();
  place_own(mine, shard, buffer, copy);
  return request;
}

Request reduce(Communicator& communicator, const Reduce& prepared, Pass pass, TensorView<float> buffer,
               TensorView<float> sums, TensorView<float> shard, const OperationLabel& label) {
  require_groups(prepared, communicator.size(), label);
  require_pass(prepared, pass, label);
  const int rank = communicator.rank();
  require_elements("the gradient", static_cast<std::int64_t>(buffer.size()), prepared.table.size, label);
  require_elements("the running sums", static_cast<std::int64_t>(sums.size()), running_sum_elements(prepared, rank),
                   label);
  require_elements("the shard", static_cast<std::int64_t>(shard.size()),
                   prepared.table.shard_size(rank % prepared.members()), label);

  if (SegmentBackend* backend = backend_for(communicator, prepared))
    return backend->reduce(prepared, pass, buffer.data(), sums.data(), shard.data(), label);
  Kokkos::fence();  // a kernel may still be writing the gradient (CASES 40)
  if (prepared.wire == DType::bfloat16) round_in_place(buffer);
  return mpi::reduce(communicator.implementation().channel, prepared, pass, buffer.data(), sums.data(), shard.data(),
                     label);
}

}  // namespace matrixfsdp
