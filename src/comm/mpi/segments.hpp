#pragma once

#include <memory>

#include <matrixfsdp/comm/segments.hpp>

#include "comm/mpi/channel.hpp"

/// gather and reduce (comm/segments.hpp) by point-to-point MPI. Preconditions have been checked, and kernels that write
/// what is sent have ended.
namespace matrixfsdp::mpi {

/// Leaves the own segments of `buffer` to the caller, before the call for allgatherv; with unshard.wire bfloat16 their
/// rounded words already stand in its upper half, and completion widens all words. Without a `shard` own segments are
/// sent from the buffer.
Request gather(const std::shared_ptr<Channel>& channel, Purpose purpose, const Unshard& unshard, const float* shard,
               float* buffer, const OperationLabel& label);

/// With prepared.wire bfloat16 the rounded words of the gradient stand in the lower half of `buffer`.
Request reduce(const std::shared_ptr<Channel>& channel, const Reduce& prepared, Pass pass, float* buffer, float* sums,
               float* shard, const OperationLabel& label);

}  // namespace matrixfsdp::mpi
