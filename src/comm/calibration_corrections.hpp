#pragma once

#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp::detail {

/// Element by element the longest of all ranks'; the same on all ranks. Collective.
std::vector<double> slowest_of(Communicator& communicator, std::vector<double> mine);

/// Runs the algorithms that the links in `profile` do not rule out, on even tables and those of one owner, of 64 KiB
/// and every twofold up to 4 MiB or what takes 0.3 s, and compares. Collective.
std::vector<CollectiveCorrection> measure_corrections(Communicator& communicator, const Topology& topology,
                                                      const CollectiveProfile& profile);

}  // namespace matrixfsdp::detail
