#pragma once

#include <string>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp::train {

/// Figures of the job's links, the same on all ranks: those of `path` where that is a file, else of a calibration now,
/// which rank 0 then writes to `path` (nowhere, if it is empty). A file that was measured with another number of ranks
/// or nodes is refused, because its figures are of ranks that share nodes and links in another way. Collective. Throws
/// InputError on all ranks where the file cannot be read or written, or does not fit.
CollectiveProfile collective_profile(Communicator& communicator, const Topology& topology, const std::string& path);

/// "alpha 120 us, 45.1 MB/s, ..." of each class of links, for the log.
std::string to_text(const CollectiveProfile& profile);

}  // namespace matrixfsdp::train
