#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench collectives`: unshard and reduce of tables of segments by each algorithm, beside the MPI library's own
/// MPI_Iallgather and MPI_Ireduce_scatter_block of the even split, polled the same way. All take turns, round by round.
/// `auto` is the algorithm that the model chooses: its time is that algorithm's own in the same rounds. So it is with
/// all algorithms that send the same messages for a table. Where NCCL carries segments, `nccl` is one more algorithm.
struct CollectivesOptions {
  std::vector<std::int64_t> bytes = {28 << 20};  ///< of the unit
  std::vector<std::string> operations = {"unshard", "reduce"};
  std::vector<std::string> tables = {"even", "seven", "one"};
  std::vector<std::string> algorithms = {"direct",       "chain",  "scatter",    "tree",
                                         "hierarchical", "padded", "allgatherv", "auto"};
  std::string profile;  ///< file of the calibration; empty: calibrate, and keep it nowhere
  train::Backend backend = train::Backend::automatic;  ///< nccl: rows by it too
  mpi::GpuAware gpu_aware = mpi::GpuAware::automatic;
  std::optional<std::int64_t> block_bytes;  ///< of a message of unshard, at most so many; none: as the library has them
  std::int64_t rounds = 5;
  bool json = false;
};
int collectives(Session& session, const CollectivesOptions& options);

/// Its subcommand.
Command add_collectives(CLI::App& app);

}  // namespace matrixfsdp::bench
