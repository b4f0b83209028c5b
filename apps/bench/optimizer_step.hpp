#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench optimizer-step`: the optimizer's step of every strategy on the gradients of one reduce, in rounds in
/// which they take turns, beside what the time model predicts from rates that are measured in the same run.
struct OptimizerStepOptions {
  std::int64_t blocks = 8;
  std::int64_t hidden = 256;
  std::string optimizer = "muon";
  int newton_schulz_steps = 5;
  std::vector<std::string> strategies;  ///< ratios are to the first; none: all that can run the optimizer
  std::vector<int> ranks;               ///< the first so many, one after the other; none: all
  std::string profile;                  ///< file of the links' calibration; empty: calibrate, and keep it nowhere
  std::int64_t rounds = 5;
  int threads = 1;
  bool json = false;
};
/// Throws InputError for an unknown name and a number of ranks that the job does not have.
int optimizer_step(Session& session, const OptimizerStepOptions& options);

/// Columns of its table, for people and for pages.
std::vector<std::string> optimizer_step_columns();

/// Its subcommand.
Command add_optimizer_step(CLI::App& app);

}  // namespace matrixfsdp::bench
