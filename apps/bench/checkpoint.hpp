#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench checkpoint`: saves beside training and not, and a load, against what the disk and the memory do with
/// the same bytes in the same rounds.
struct CheckpointOptions {
  std::uint64_t bytes = std::uint64_t{256} << 20;  ///< of weights and optimizer state, of each rank
  double compute_milliseconds = 1000;              ///< from the start of a save to the next update
  std::string folder = ".";                        ///< in which a folder is made, and removed
  std::int64_t rounds = 5;
  bool json = false;
};
/// Throws InputError for a folder in which nothing can be made.
int checkpoint(Session& session, const CheckpointOptions& options);

/// Its subcommand.
Command add_checkpoint(CLI::App& app);

}  // namespace matrixfsdp::bench
