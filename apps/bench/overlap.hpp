#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench overlap`: whole steps of a model of equal units whose computation is a timed wait, so that what is
/// measured is how much of the communication hides behind it.
struct OverlapOptions {
  std::int64_t units = 6;
  std::uint64_t bytes = std::uint64_t{8} << 20;                    ///< of each unit
  std::vector<std::string> progress = {"thread", "poll", "none"};  ///< what moves transfers
  std::vector<std::int64_t> matrices;  ///< of a unit, equal ones; each is measured. None: a transformer's block
  double compute_milliseconds = 100;   ///< of a unit's forward; its backward takes twice that
  double poll_milliseconds = 2;        ///< between two tests of a rank without a progress thread
  std::int64_t prefetch = 1;
  std::int64_t reduces_in_flight = 1;
  train::Backend backend = train::Backend::automatic;
  mpi::GpuAware gpu_aware = mpi::GpuAware::automatic;
  std::int64_t rounds = 5;
  bool json = false;
};
int overlap(Session& session, const OverlapOptions& options);

/// Columns of its table, for people and for pages.
std::vector<std::string> overlap_columns();

/// Its subcommand.
Command add_overlap(CLI::App& app);

}  // namespace matrixfsdp::bench
