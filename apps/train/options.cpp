#include "apps/train/options.hpp"

#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>

#include "apps/train/matrix_options.hpp"
#include "apps/train/model_options.hpp"
#include "apps/train/unit_policies.hpp"

namespace matrixfsdp::train {
namespace {

/// What this build, this processor and the Gram form do not have.
void check_precision(const Options& options) {
  linalg::require_math(options.math, fmt::format("--math {}", name_of(options.math)));
  if (options.compute_dtype == DType::bfloat16) linalg::require_bfloat16("--compute-dtype bfloat16");
  const NewtonSchulzOptions& newton_schulz = options.optimizer.muon.newton_schulz;
  if (newton_schulz.norm_floor > 0 && options.strategy == StrategyKind::fsdp2)
    throw InputError("--muon-preset torch: expected another strategy than fsdp2, whose ranks divide by the norm");
  if (newton_schulz.dtype != DType::bfloat16 || options.optimizer.matrices != MatrixOptimizer::muon) return;
  linalg::require_bfloat16("--ns-dtype bfloat16");
  if (newton_schulz.algorithm != NewtonSchulzAlgorithm::standard &&
      newton_schulz.algorithm != NewtonSchulzAlgorithm::automatic) {
    throw InputError(fmt::format(
        "--ns-algorithm {}: expected standard or auto with --ns-dtype bfloat16, whose rounding the Gram form "
        "amplifies",
        name_of(newton_schulz.algorithm)));
  }
  if (options.strategy == StrategyKind::fsdp2) {
    throw InputError(
        "--ns-dtype bfloat16: expected another strategy than fsdp2, whose ranks multiply blocks of rows in float32");
  }
}

/// What a strategy cannot do together with other options.
void check_strategy(const Options& options, int world_size) {
  const std::string_view name = name_of(options.strategy);
  const int shard_size = options.shard_size(world_size);
  if (options.strategy != StrategyKind::matrix_fsdp && shard_size != world_size) {
    throw InputError(fmt::format("--shard-size {}: expected 0 with --strategy {}, only matrix-fsdp has shard groups",
                                 shard_size, name));
  }
  require_supported(options.strategy, options.optimizer.matrices);
  matrixfsdp::check_strategy(options.strategy, world_size, transformer_model(options.shape), options.sharding);
  if (options.health_every > 0 && has_row_shards(options.strategy) && world_size > 1) {
    throw InputError(fmt::format("--health-every {}: expected a strategy whose ranks step whole matrices, not {}",
                                 options.health_every, name));
  }
  const bool rounds_otherwise =
      options.strategy == StrategyKind::fsdp2 && options.optimizer.matrices == MatrixOptimizer::muon && world_size > 1;
  if (options.verify && rounds_otherwise) {
    throw InputError(
        "--verify: expected another strategy than fsdp2, or --optimizer adamw: its Newton-Schulz steps multiply blocks "
        "of "
        "rows, and round otherwise than a replicated copy");
  }
}

}  // namespace

void validate(const Options& options, int world_size) {
  const std::int64_t per_pass = options.micro_batch * world_size;
  if (options.batch_size % per_pass != 0) {
    throw InputError(fmt::format("--batch-size {}: expected a multiple of W x --micro-batch = {} x {} = {}",
                                 options.batch_size, world_size, options.micro_batch, per_pass));
  }
  if (options.batch_size / options.micro_batch % options.sharding.sum_group != 0) {
    throw InputError(fmt::format("--sum-group {}: expected a divisor of the micro-batches of a step, {} / {} = {}",
                                 options.sharding.sum_group, options.batch_size, options.micro_batch,
                                 options.batch_size / options.micro_batch));
  }
  if (options.sharding.sum_group > 1 && options.sharding.accumulation == Accumulation::unsharded) {
    throw InputError(fmt::format("--sum-group {}: expected 1 with --accumulate unsharded, which sums passes first",
                                 options.sharding.sum_group));
  }
  if (options.automatic_collectives && options.sharding.reduce_collective != CollectiveAlgorithm::scatter) {
    throw InputError(fmt::format("--reduce-collective {}: expected none with --collective auto, which chooses it",
                                 name_of(options.sharding.reduce_collective)));
  }
  const int shard_size = options.shard_size(world_size);
  if (world_size % shard_size != 0) {
    throw InputError(
        fmt::format("--shard-size {}: expected 0, or one that divides the {} ranks", shard_size, world_size));
  }
  check_strategy(options, world_size);
  if (options.sharding.step_in_backward && options.gradient_clip > 0) {
    throw InputError(
        fmt::format("--step-in-backward with --grad-clip {}: expected --grad-clip 0, clipping needs the norm of all "
                    "gradients before the first step",
                    options.gradient_clip));
  }
  check_precision(options);
  validate(options.schedule);
  if (options.schedule.warmup_steps > options.steps) {
    throw InputError(
        fmt::format("--warmup-steps {}: expected at most --steps {}", options.schedule.warmup_steps, options.steps));
  }
  if (!options.collective_profile.empty() && !options.automatic_collectives) {
    throw InputError(fmt::format("--collective-profile '{}': expected --collective auto, which alone reads it",
                                 options.collective_profile));
  }
  if (options.health_every > 0 && options.metrics.empty()) {
    throw InputError(
        fmt::format("--health-every {}: expected --metrics FILE.jsonl, where the figures go", options.health_every));
  }
  const bool profiled = options.planner.policy == Policy::profile;
  if (profiled && options.planner_profile.empty())
    throw InputError("--planner profile: expected --profile with the metrics file of a run");
  if (!profiled && !options.planner_profile.empty()) {
    throw InputError(
        fmt::format("--profile '{}': expected --planner profile, which alone reads it", options.planner_profile));
  }
  if (options.resume.empty()) throw InputError("--resume '': expected none, auto or the folder of one step");
  if (options.resume == "auto" && options.checkpoint_folder.empty()) {
    throw InputError("--resume 'auto': expected --checkpoint-dir to say where checkpoints are");
  }
  if (options.checkpoint_every > 0 && options.checkpoint_folder.empty()) {
    throw InputError(
        fmt::format("--checkpoint-every {}: expected --checkpoint-dir to say where", options.checkpoint_every));
  }
}

nlohmann::json to_json(const Options& options) {
  const MuonOptions& muon = options.optimizer.muon;
  nlohmann::json model = to_json(options.shape);
  model["name"] = options.model;
  return {
      {"model", std::move(model)},
      {"strategy", name_of(options.strategy)},
      {"planner", name_of(options.planner.policy)},
      {"shard_size", options.sharding.shard_size},
      {"prefetch", options.sharding.prefetch},
      {"reduces_in_flight", options.sharding.reduces_in_flight},
      {"step_in_backward", options.sharding.step_in_backward},
      {"progress", options.sharding.progress_thread ? "thread" : "poll"},
      {"backend", name_of(options.backend)},
      {"gpu_aware_mpi", mpi::name_of(options.gpu_aware)},
      {"collective", options.automatic_collectives ? "auto" : name_of(options.sharding.collective)},
      {"reduce_collective", options.automatic_collectives ? "auto" : name_of(options.sharding.reduce_collective)},
      {"sum_group", options.sharding.sum_group},
      {"accumulate", options.sharding.accumulation == Accumulation::chunks ? "chunks" : "unsharded"},
      {"param_dtype", name_of(options.sharding.policies.all.param_dtype)},
      {"reshard_to", options.sharding.policies.all.reshard_to},
      {"reduce_dtype", name_of(options.sharding.policies.all.reduce_dtype)},
      {"unit_policies", to_json(options.sharding.policies)},
      {"optimizer", name_of(options.optimizer.matrices)},
      {"preconditioner", preconditioner_json(options.optimizer)},
      {"lr", matrix_learning_rate(options.optimizer)},
      {"adamw_lr", options.optimizer.adamw.learning_rate},
      {"weight_decay", muon.weight_decay},
      {"momentum", muon.momentum},
      {"nesterov", muon.nesterov},
      {"scale_rule", name_of(muon.scale)},
      {"ns_algorithm", name_of(muon.newton_schulz.algorithm)},
      {"ns_coefficients", muon.newton_schulz.coefficients->name},
      {"ns_steps", muon.newton_schulz.steps},
      {"ns_norm_floor", muon.newton_schulz.norm_floor},
      {"ns_dtype", name_of(muon.newton_schulz.dtype)},
      {"grad_clip", options.gradient_clip},
      {"lr_schedule", name_of(options.schedule.kind)},
      {"warmup_steps", options.schedule.warmup_steps},
      {"steps", options.steps},
      {"batch_size", options.batch_size},
      {"micro_batch", options.micro_batch},
      {"recompute", options.recompute},
      {"health_every", options.health_every},
      {"compute_dtype", name_of(options.compute_dtype)},
      {"math", name_of(options.math)},
      {"threads", options.threads},
      {"seed", options.seed},
      {"data", options.data},
  };
}

}  // namespace matrixfsdp::train
