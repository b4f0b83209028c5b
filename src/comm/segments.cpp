#include "comm/mpi/segments.hpp"

#include <fmt/format.h>

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/wire.hpp>

#include "comm/own_segments.hpp"
#include "comm/require.hpp"
#include "comm/segment_backend.hpp"

namespace matrixfsdp {
namespace {

/// Who carries segments instead of MPI; null: MPI does.
SegmentBackend* backend_of(Communicator& communicator) {
  SegmentBackend* backend = communicator.implementation().segments.get();
  return backend != nullptr && backend->attached() ? backend : nullptr;
}

/// The same for a reduce: backends keep sums with the holders of a shard group, and know no groups that stay open.
SegmentBackend* backend_of(Communicator& communicator, const Reduce& reduce) {
  const bool holders_keep =
      reduce.algorithm == CollectiveAlgorithm::direct || reduce.algorithm == CollectiveAlgorithm::scatter;
  return holders_keep && !reduce.open_between_runs && !reduce.open_between_passes ? backend_of(communicator) : nullptr;
}

}  // namespace

Request gather(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<const float> shard,
               TensorView<float> buffer, const OperationLabel& label) {
  const SegmentTable& table = unshard.table;
  require_group(unshard, communicator, label);
  const int member = communicator.rank() - unshard.first_rank;
  require_elements("the shard", static_cast<std::int64_t>(shard.size()), table.shard_size(member), label);
  require_elements("the buffer", static_cast<std::int64_t>(buffer.size()), table.size, label);

  if (unshard.wire == DType::bfloat16) require_apart(shard, buffer, label);

  if (SegmentBackend* backend = backend_of(communicator))
    return backend->gather(purpose, unshard, shard.data(), buffer.data(), label);
  const auto& mine = table.intervals[static_cast<std::size_t>(member)];
  const auto issue = [&] {
    return mpi::gather(communicator.implementation().channel, purpose, unshard, shard.data(), buffer.data(), label);
  };
  Kokkos::fence();  // a kernel may still be writing the shard (CASES 40)
  if (unshard.wire == DType::bfloat16) {
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

Request gather_in_place(Communicator& communicator, Purpose purpose, const Unshard& unshard, TensorView<float> buffer,
                        const OperationLabel& label) {
  require_group(unshard, communicator, label);
  require_elements("the buffer", static_cast<std::int64_t>(buffer.size()), unshard.table.size, label);
  if (unshard.wire != DType::float32) {
    throw ContractError(fmt::format("{}: {} travels: expected float32 where a gather is in place", to_string(label),
                                    name_of(unshard.wire)));
  }
  Kokkos::fence();  // a kernel may still be writing own segments (CASES 40)
  return mpi::gather(communicator.implementation().channel, purpose, unshard, nullptr, buffer.data(), label);
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

  if (SegmentBackend* backend = backend_of(communicator, prepared))
    return backend->reduce(prepared, pass, buffer.data(), sums.data(), shard.data(), label);
  Kokkos::fence();  // a kernel may still be writing the gradient (CASES 40)
  if (prepared.wire == DType::bfloat16) round_in_place(buffer);
  return mpi::reduce(communicator.implementation().channel, prepared, pass, buffer.data(), sums.data(), shard.data(),
                     label);
}

}  // namespace matrixfsdp
