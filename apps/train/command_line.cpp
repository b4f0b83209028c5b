#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "apps/option_reader.hpp"
#include "apps/parse_arguments.hpp"
#include "apps/train/matrix_options.hpp"
#include "apps/train/model_options.hpp"
#include "apps/train/options.hpp"
#include "apps/train/unit_policies.hpp"
#include "apps/train/version.hpp"

namespace matrixfsdp::train {
namespace {

using apps::OptionReader;

void add_data_options(OptionReader& reader, CLI::App& app, Options& options) {
  app.add_option("--data", options.data, "Text files (bytes), directories of them, or llm.c token shards (.bin)");
  app.add_option("--val", options.validation, "Validation data; by default the last part of --data is held out");
  reader.real("--val-fraction", options.validation_fraction, 0.0, 0.9, "Share of --data held out when --val is absent");
}

void add_schedule_options(OptionReader& reader, Options& options) {
  reader.real("--grad-clip", options.gradient_clip, 0, 1e30, "Largest global gradient norm; 0: no clipping");
  reader.text("--lr-schedule", "constant, cosine, warmup-stable-decay", "cosine",
              [&options](const std::string& value) { options.schedule.kind = parse_schedule(value); });
  reader.integer("--warmup-steps", options.schedule.warmup_steps, 0, "Linear warm-up");
}

void add_overlap_options(OptionReader& reader, CLI::App& app, ShardedModelOptions& sharding) {
  reader.integer("--prefetch", sharding.prefetch, 0, "Units unsharded ahead of the one that computes");
  reader.integer("--reduces-in-flight", sharding.reduces_in_flight, 0,
                 "Units whose gradients travel while the next ones are computed, each with a buffer; 0: wait for each");
  reader.choice("--progress",
                "What moves transfers while a rank computes. thread: one beside it (where MPI has "
                "MPI_THREAD_MULTIPLE, else poll); poll: tests between kernels",
                "thread",
                {{"thread", [&sharding] { sharding.progress_thread = true; }},
                 {"poll", [&sharding] { sharding.progress_thread = false; }}});
  app.add_flag("--step-in-backward", sharding.step_in_backward,
               "Step each unit as soon as its gradient has landed, beside the rest of backward: the same bits, less "
               "waiting, and (with one pass per step) gradients of units in flight only. Of matrix-fsdp with "
               "--grad-clip 0; a gradient that is not finite ends the run, because no step can be skipped any more");
}

void add_parallel_options(OptionReader& reader, Options& options, std::int64_t& threads, std::int64_t& shard_size) {
  std::string strategies = "Where weights live, and what the optimizer step sends";
  std::map<std::string, std::function<void()>> choices;
  for (const StrategyKind kind : strategy_kinds()) {
    strategies += fmt::format("\n{}: {}", name_of(kind), summary_of(kind));
    choices[std::string(name_of(kind))] = [&options, kind] { options.strategy = kind; };
  }
  reader.choice("--strategy", strategies, "matrix-fsdp", choices);
  reader.text("--planner", "role, scope, cost, balanced, profile (measured times: --profile)", "balanced",
              [&options](const std::string& value) { options.planner.policy = parse_policy(value); });
  reader.text("--profile", "Metrics file of a run of this model: what its matrices took on each rank", "",
              [&options](const std::string& value) { options.planner_profile = value; });
  reader.text("--backend",
              "What carries units' segments. nccl: grouped sends on each rank's device, an error where that cannot be; "
              "mpi; auto: nccl where this build has it and every rank has a device of its own, else mpi",
              "auto", [&options](const std::string& value) { options.backend = parse_backend(value); });
  reader.text("--gpu-aware-mpi",
              "Whether MPI is given addresses of tensors (on) or of copies in host memory (off); auto: copies only of "
              "tensors on a device, with a library that does not say that it knows devices",
              "auto", [&options](const std::string& value) { options.gpu_aware = parse_gpu_aware_mpi(value); });
  reader.text("--collective",
              "How units are unsharded: direct, chain, scatter, tree, hierarchical, padded, allgatherv; auto: what a "
              "calibration of a few seconds predicts to be the fastest, for each unit, and for its reduction",
              "scatter", [&options](const std::string& value) {
                options.automatic_collectives = value == "auto";
                if (options.automatic_collectives) return;
                try {
                  options.sharding.collective = parse_collective(value);
                } catch (const InputError& error) {
                  throw InputError(fmt::format("{}, or auto", error.what()));
                }
              });
  reader.text("--reduce-collective",
              "How their gradients are summed: direct, chain, scatter, tree, hierarchical; the bits of a run do not "
              "depend on it. --collective auto chooses it too",
              "scatter", [&options](const std::string& value) {
                options.sharding.reduce_collective = parse_collective(value);
                try {
                  require_reduces(options.sharding.reduce_collective);
                } catch (const ContractError& error) {
                  throw InputError(error.what());
                }
              });
  reader.integer("--sum-group", options.sharding.sum_group, 1,
                 "Micro-batches with neighbouring indices whose gradients are summed first, then these sums: a divisor "
                 "of batch-size / micro-batch. The bits of a run depend on it, but not on W; 1: one sum");
  reader.text("--collective-profile", "File of the calibration: read if it exists, else written", "",
              [&options](const std::string& value) { options.collective_profile = value; });
  reader.choice("--accumulate",
                "chunks: exchange in every pass, bits independent of W; unsharded: once per step, more memory",
                "chunks",
                {{"chunks", [&options] { options.sharding.accumulation = Accumulation::chunks; }},
                 {"unsharded", [&options] { options.sharding.accumulation = Accumulation::unsharded; }}});
  reader.integer(
      "--shard-size", shard_size, 0,
      "Ranks of a shard group: each group of neighbouring ranks (a node's, say) holds the whole model, so that "
      "units are unsharded inside it; 0: all ranks are one group");
  reader.integer("--threads", threads, 1,
                 "Threads of each rank (BLAS and Kokkos), and matrices that its optimizer steps at once. The bits of a "
                 "run depend on it: of forward and backward, not of the optimizer");
  reader.real("--timeout", options.timeout_seconds, 0.1, 1e6, "Seconds until a wait for another rank ends the job");
}

void add_precision_options(OptionReader& reader, CLI::App& app, Options& options,
                           std::vector<std::string>& unit_policies) {
  UnitPolicy& all = options.sharding.policies.all;
  reader.text("--param-dtype",
              "What weights travel as, and are computed from: float32, or bfloat16 for half the bytes of unshard; the "
              "optimizer and checkpoints keep float32",
              "float32", [&all](const std::string& value) { all.param_dtype = parse_wire("--param-dtype", value); });
  reader.text("--reduce-dtype",
              "What gradients travel as: float32, or bfloat16 for half the bytes, each rounded once; sums are float32",
              "float32", [&all](const std::string& value) { all.reduce_dtype = parse_wire("--reduce-dtype", value); });
  reader.text("--reshard",
              "Whether a unit's weights are given up after forward. yes; no: backward unshards nothing, and memory is "
              "that of the whole model; RANKS: so many neighbouring ranks keep a copy together, and backward unshards "
              "among them",
              "yes", [&all](const std::string& value) { all.reshard_to = parse_reshard("--reshard", value); });
  reader.text(
      "--compute-dtype",
      "What the products of weights, forward and backward, are computed with: float32, or bfloat16 on a CPU that "
      "has instructions for it, or a CUDA device: operands are rounded, sums are float32; attention, norms, losses and "
      "the "
      "optimizer's weights stay float32",
      "float32",
      [&options](const std::string& value) { options.compute_dtype = parse_wire("--compute-dtype", value); });
  reader.choice("--math",
                "What every product of float32 is computed with, the optimizer's too. tf32: entries rounded to 10 bits "
                "of mantissa, on tensor cores of CUDA devices",
                "float32",
                {{"float32", [&options] { options.math = linalg::Math::float32; }},
                 {"tf32", [&options] { options.math = linalg::Math::tf32; }}});
  app.add_option("--unit-policy", unit_policies, unit_policy_help())->allow_extra_args(false);
}

void add_following_options(OptionReader& reader, Options& options) {
  reader.text("--metrics", "File of metrics, one JSON line per step (mfsdp-report makes a page of it)", "",
              [&options](const std::string& value) { options.metrics = value; });
  reader.integer("--health-every", options.health_every, 0,
                 "Steps between measurements of every matrix, by its owner: norm, largest and smallest singular value "
                 "(estimates) and non-finite values of gradient, weight and update, and the update's residual of "
                 "orthogonality; a line of --metrics. 0: none");
  reader.text("--tensorboard", "Folder for an event file of TensorBoard, a new one for each part of a resumed run", "",
              [&options](const std::string& value) { options.tensorboard = value; });
  reader.choice("--progress-line",
                "Progress as one line that is redrawn, instead of a line every few seconds. auto: where standard error "
                "is a terminal, which under mpiexec it is not",
                "auto",
                {{"auto", [&options] { options.progress_line = ProgressLine::automatic; }},
                 {"yes", [&options] { options.progress_line = ProgressLine::yes; }},
                 {"no", [&options] { options.progress_line = ProgressLine::no; }}});
}

void add_run_options(OptionReader& reader, CLI::App& app, Options& options) {
  reader.integer("--batch-size", options.batch_size, 1, "Sequences per step, all ranks");
  reader.integer("--micro-batch", options.micro_batch, 1, "Sequences per pass and rank");
  reader.integer("--steps", options.steps, 1, "Optimizer steps of the whole run, resumed steps included");
  app.add_flag("--recompute", options.recompute, "Run each block's forward again in backward, for less memory");
  reader.text("--checkpoint-dir", "Folder of checkpoints", "",
              [&options](const std::string& value) { options.checkpoint_folder = value; });
  reader.integer("--checkpoint-every", options.checkpoint_every, 0, "Steps between checkpoints; 0: at the end only");
  reader.choice("--checkpoint-mode",
                "async: training goes on while a checkpoint is written, and copies what is not on disk when the next "
                "step changes it; sync: training waits",
                "async",
                {{"async", [&options] { options.checkpoint_mode = CheckpointMode::asynchronous; }},
                 {"sync", [&options] { options.checkpoint_mode = CheckpointMode::synchronous; }}});
  reader.real("--checkpoint-timeout", options.checkpoint_timeout_seconds, 0.1, 1e6,
              "Seconds until a save, or reading a checkpoint, ends the job");
  reader.integer("--keep-last", options.keep_last, 1, "Checkpoints kept");
  reader.text("--resume", "none, auto (the newest valid checkpoint, if any), or the folder of one step", "none",
              [&options](const std::string& value) { options.resume = value; });
  reader.integer("--eval-every", options.evaluate_every, 0, "Steps between validations; 0: at the end only");
  reader.integer("--eval-batches", options.evaluation_batches, 1, "Global batches of a validation");
  reader.integer("--sample-every", options.sample_every, 0, "Steps between samples; 0: at the end only");
  reader.integer("--sample-tokens", options.sample_tokens, 0, "Tokens of a sample");
  reader.real("--temperature", options.temperature, 0, 100, "Of sampling; 0: the most likely token");
  reader.text(
      "--prompt",
      "Start of the sample: text, or token ids ('17 4 1029') where the data are shards; by default a piece of the "
      "validation data",
      "", [&options](const std::string& value) { options.prompt = value; });
  app.add_flag("--verify", options.verify,
               "Train a fully replicated copy beside the run and compare every gradient and weight, bit for bit");
  app.add_flag("--json", options.json, "Print the summary as JSON on standard output");
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
  CommandLine result;
  Options& options = result.options;
  options.schedule.kind = ScheduleKind::cosine;
  CLI::App app(
      "Trains a transformer whose matrices live whole on one owner rank (ZeRO-3 for matrix optimizers).\n"
      "Example: mpiexec -n 4 mfsdp-train --data book.txt --model gpt2 --steps 500 --metrics run.jsonl\n");
  app.footer(
      "Exit codes: 0 good; 2 an error, in one line on standard error; 75 stopped by SIGTERM or SIGUSR1 after a step, "
      "with a checkpoint in --checkpoint-dir: start again with --resume auto (a batch system may requeue the job).");
  app.set_config("--config", "", "Options as TOML (name = value), before those of the command line");
  app.set_version_flag("--version", version_text());
  OptionReader reader(app);
  ShapeOverrides given;
  std::int64_t threads = 1;
  std::int64_t shard_size = 0;
  std::int64_t seed = 1;
  std::vector<std::string> unit_policies;
  add_data_options(reader, app, options);
  add_model_options(reader, options.model, given);
  add_run_options(reader, app, options);
  add_following_options(reader, options);
  MatrixOptions matrices(reader, options.optimizer);
  add_schedule_options(reader, options);
  add_parallel_options(reader, options, threads, shard_size);
  add_overlap_options(reader, app, options.sharding);
  add_precision_options(reader, app, options, unit_policies);
  reader.integer("--seed", seed, 0, "Of the initial weights, the order of the data, and samples");

  result.text_and_exit = apps::parse_arguments(app, argc, argv);
  if (!result.text_and_exit.empty()) return result;
  if (options.data.empty()) throw InputError("--data '': expected at least one text file or token shard");

  options.shape = resolve_shape(options.model, given);
  add_unit_policies(unit_policies, options.sharding.policies);
  options.seed = options.sharding.seed = static_cast<std::uint64_t>(seed);
  options.threads = static_cast<int>(threads);
  options.optimizer.workers = options.threads;
  options.sharding.shard_size = static_cast<int>(std::min<std::int64_t>(shard_size, std::numeric_limits<int>::max()));
  options.schedule.total_steps = options.steps;
  matrices.resolve();
  options.planner.optimizer = cost_of(options.optimizer);
  return result;
}

}  // namespace matrixfsdp::train
