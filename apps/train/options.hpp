#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/optim/schedule.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/strategy.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "apps/train/backend.hpp"

namespace matrixfsdp::train {

/// Whether training waits for a checkpoint to be on disk.
enum class CheckpointMode { synchronous, asynchronous };

/// Whether progress is one line that is redrawn. automatic: where standard error is a terminal.
enum class ProgressLine { automatic, yes, no };

/// Everything a run is told. Defaults are those of --help.
struct Options {
  std::vector<std::string> data;
  std::vector<std::string> validation;  ///< empty: the last validation_fraction of the data
  double validation_fraction = 0.1;

  std::string model = "gpt2";  ///< as given: a catalogue name, or a style with the extents below
  TransformerShape shape;

  StrategyKind strategy = StrategyKind::matrix_fsdp;
  PlannerOptions planner;
  std::string planner_profile;  ///< of Policy::profile: the metrics file of a run
  ShardedModelOptions sharding;
  Backend backend = Backend::automatic;  ///< carries units' segments
  mpi::GpuAware gpu_aware = mpi::GpuAware::automatic;
  bool automatic_collectives = false;  ///< the model's choice for each unit, instead of sharding.collective
  std::string collective_profile;      ///< file of the calibration; empty: none is kept

  RoutingOptions optimizer;
  Schedule schedule;
  double gradient_clip = 1.0;

  std::int64_t batch_size = 16;  ///< sequences per step, all ranks
  std::int64_t micro_batch = 1;  ///< sequences per pass and rank
  std::int64_t steps = 200;
  bool recompute = false;
  DType compute_dtype = DType::float32;       ///< of the products of weights
  linalg::Math math = linalg::Math::float32;  ///< of all products of float

  std::string checkpoint_folder;
  std::int64_t checkpoint_every = 0;  ///< 0: at the end only
  std::int64_t keep_last = 3;
  CheckpointMode checkpoint_mode = CheckpointMode::asynchronous;
  double checkpoint_timeout_seconds = 1800;  ///< of one save, or of a load
  std::string resume = "none";               ///< none, auto, or the folder of one step

  std::int64_t evaluate_every = 0;  ///< 0: at the end only
  std::int64_t evaluation_batches = 4;
  std::int64_t sample_every = 0;
  std::int64_t sample_tokens = 200;
  double temperature = 0.8;
  std::string prompt;

  std::string metrics;      ///< JSON lines; empty: none
  std::string tensorboard;  ///< folder of event files; empty: none
  ProgressLine progress_line = ProgressLine::automatic;
  std::int64_t health_every = 0;  ///< steps between measurements of all matrices; 0: none
  bool verify = false;
  bool json = false;  ///< the summary as JSON on standard output
  int threads = 1;
  double timeout_seconds = 300;
  std::uint64_t seed = 1;

  [[nodiscard]] std::int64_t sequence_length() const { return shape.sequence_length; }
  [[nodiscard]] int shard_size(int world_size) const {
    return sharding.shard_size == 0 ? world_size : sharding.shard_size;
  }
  [[nodiscard]] std::int64_t passes(int world_size) const { return batch_size / (micro_batch * world_size); }
};

struct CommandLine {
  Options options;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
};

/// Reads the command line and --config. Throws InputError with one line for anything wrong that needs no other rank.
CommandLine parse_command_line(int argc, char** argv);

/// What depends on W or on several options: batch size divisible by W x micro-batch, micro-batches by the sum group, a
/// valid schedule with at most `steps` of warm-up, checkpoints that have a folder, a resume that is not empty, a
/// collective profile that is read, a profile for the planner that uses one. Throws InputError.
void validate(const Options& options, int world_size);

/// The configuration that checkpoints and metrics record.
nlohmann::json to_json(const Options& options);

}  // namespace matrixfsdp::train
