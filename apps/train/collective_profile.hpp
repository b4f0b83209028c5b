#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp::train {

/// Figures of the job's links, the same on all ranks: those of `path` where that is a file, else of a calibration now,
/// which rank 0 then writes to `path` (nowhere, if it is empty). A file that was measured with another number of ranks
/// or nodes is refused, because its figures are of ranks that share nodes and links in another way. Collective. Throws
/// InputError on all ranks where the file cannot be read or written, or does not fit.
CollectiveProfile collective_profile(Communicator& communicator, const Topology& topology, const std::string& path);

/// "between nodes 120 us a hop, ..." of each class of links, for the log.
std::string to_text(const CollectiveProfile& profile);

/// What the model chooses, and from what.
struct AutomaticCollectives {
  Topology topology;
  CollectiveProfile profile;
  std::vector<UnitCollectives> units;
};

/// Without the predicted times.
std::vector<UnitAlgorithms> algorithms_of(const std::vector<UnitCollectives>& units);

/// "unshard scatter (12 units), direct (1 unit); reduce scatter (13 units)", for the log.
std::string to_text(const std::vector<UnitCollectives>& units);

}  // namespace matrixfsdp::train
