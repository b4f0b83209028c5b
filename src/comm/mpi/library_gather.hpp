#pragma once

#include <memory>

#include <matrixfsdp/plan/collective.hpp>

#include "comm/mpi/pending.hpp"

namespace matrixfsdp::mpi {

/// Unshard by MPI_Iallgatherv, once for the first and once for the second intervals; like gather of segments.hpp, own
/// segments in place.
/// Counts as sent what a ring sends: the shard to each other rank. Throws InputError where an offset does not fit MPI's
/// int.
std::shared_ptr<Pending> library_gather(const std::shared_ptr<Channel>& channel, Purpose purpose,
                                        const Unshard& unshard, float* buffer);

}  // namespace matrixfsdp::mpi
