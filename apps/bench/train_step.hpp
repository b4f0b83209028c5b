#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"
#include "apps/train/model_options.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench train-step`: whole training steps of each strategy (with each planner and each collective, where there
/// are several), in rounds in which they take turns, beside what the time model predicts from rates of the same run.
struct TrainStepOptions {
  std::string model = "gpt2:124m";
  train::ShapeOverrides extents{.sequence_length = 256};
  std::int64_t micro_batch = 4;
  std::int64_t passes = 1;  ///< per step and rank
  std::string optimizer = "muon";
  int newton_schulz_steps = 5;
  std::vector<std::string> strategies = {"matrix-fsdp"};  ///< ratios are to the first row
  std::vector<std::string> planners = {"balanced"};
  std::vector<std::string> collectives = {"scatter"};  ///< of unshard
  std::string profile;            ///< file of the links' calibration; empty: calibrate, and keep it nowhere
  bool step_in_backward = false;  ///< a second row for matrix-fsdp, whose units are stepped in backward
  bool recompute = false;
  std::vector<std::string> compute_dtypes = {"float32"};
  train::Backend backend = train::Backend::automatic;
  mpi::GpuAware gpu_aware = mpi::GpuAware::automatic;
  std::int64_t rounds = 5;
  int threads = 1;
  bool json = false;
};
/// Throws InputError for a shape or a combination of strategy and collective that cannot be.
int train_step(Session& session, const TrainStepOptions& options);

/// Columns of its table, for people and for pages.
std::vector<std::string> train_step_columns();

/// Its subcommand.
Command add_train_step(CLI::App& app);

}  // namespace matrixfsdp::bench
