#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench planner`: how long a plan of a great many matrices takes, on one core.
struct PlannerBenchOptions {
  std::vector<std::int64_t> matrices = {10'000, 100'000};
  std::vector<int> ranks = {64, 1024, 16'384};
  std::int64_t rounds = 3;
  bool json = false;
};
int planner(Session& session, const PlannerBenchOptions& options);

/// Its subcommand.
Command add_planner(CLI::App& app);

}  // namespace matrixfsdp::bench
