#include "apps/train/trainer.hpp"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>

#include "apps/train/sampler.hpp"
#include "apps/train/verify.hpp"

namespace matrixfsdp::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  Kokkos::fence();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Plan plan_for(const Options& options, int world_size) {
  const ModelSpec model = transformer_model(options.shape);
  return make_strategy_plan(options.strategy, model, options.shard_size(world_size), options.planner);
}

}  // namespace

Trainer::Trainer(Communicator& communicator, const Options& options, const Data& data)
    : communicator_(communicator), options_(options), data_(data) {
  mpi::set_gpu_aware(communicator, options_.gpu_aware);
  if (options_.automatic_collectives) {
    collectives_.topology = mpi::topology_of(communicator);
    collectives_.profile = collective_profile(communicator, collectives_.topology, options_.collective_profile);
  }
  attachment_.emplace(attach_backend(communicator, options_.backend));  // after the calibration, which is of MPI
  backend_ = attachment_->description();
  if (mpi::stages_messages(communicator)) backend_ += "; MPI's messages are copied to host memory";
  if (options_.planner.policy == Policy::profile)
    options_.planner.profile = optimizer_profile(communicator, options_.planner_profile);
  replica_ = make_replica(communicator, options_, collectives_.units);
  if (options_.verify) {
    reference_communicator_ = std::make_unique<Communicator>(mpi::duplicate(communicator));
    Options replicated = options_;
    replicated.strategy = StrategyKind::ddp;
    replicated.sharding.shard_size = 0;
    replicated.sharding.step_in_backward = false;
    std::vector<UnitCollectives> choices;
    reference_ = make_replica(*reference_communicator_, replicated, choices);
  }
  if (options.health_every > 0) probe_.emplace(replica_->optimizer->views());
  reported_ = communicator_.bytes();
}

std::unique_ptr<Replica> Trainer::make_replica(Communicator& communicator, Options options,
                                               std::vector<UnitCollectives>& choices) const {
  Plan plan = plan_for(options, communicator.size());
  if (options.automatic_collectives) {
    const bool chunks = options.sharding.accumulation == Accumulation::chunks;
    choices = choose_collectives(
        plan, collectives_.topology, collectives_.profile,
        {chunks ? options.passes(communicator.size()) : 1, DType::float32, options.sharding.sum_group});
    options.sharding.unit_collectives = algorithms_of(choices);
  }
  return std::make_unique<Replica>(communicator, options, std::move(plan));
}

void Trainer::restore(std::int64_t step, std::int64_t taken) {
  step_ = step;
  taken_ = taken;
  reported_ = communicator_.bytes();
}

void Trainer::run_passes(Replica& replica, std::vector<double>& losses, PassTimes& times) {
  const int ranks = communicator_.size();
  const auto tokens = static_cast<double>(options_.batch_size * options_.sequence_length());
  replica.model.begin_step();
  for (std::int64_t pass = 0; pass < options_.passes(ranks); ++pass) {
    const std::int64_t index = pass * ranks + communicator_.rank();
    const MicroBatch batch = data_.training_batch(step_, index * options_.micro_batch, options_.micro_batch);
    losses.push_back(run_pass(replica, batch, static_cast<float>(1.0 / tokens), times));
  }
}

StepMetrics Trainer::step() {
  ++step_;
  StepMetrics metrics;
  metrics.step = step_;
  const auto start = Clock::now();
  std::vector<double> losses;
  PassTimes times;
  StepInput input = begin_update();
  run_passes(*replica_, losses, times);
  metrics.forward = times.forward;
  metrics.backward = times.backward;

  const auto phase = Clock::now();
  const std::int64_t tokens = options_.batch_size * options_.sequence_length();
  metrics.loss = fold_losses(communicator_, losses, options_.sharding.sum_group) / static_cast<double>(tokens);
  const GradientNorm norm = gradient_norm(replica_->model, failures_);
  metrics.gradient_norm = norm.norm;
  metrics.skipped = !norm.finite || !std::isfinite(metrics.loss);
  metrics.clip = seconds_since(phase);

  input.gradient_scale = clip_scale(norm.norm, options_.gradient_clip);
  metrics.learning_rate = input.schedule * matrix_learning_rate(options_.optimizer);
  failures_ = 0;
  std::vector<std::string> failed;
  if (metrics.skipped) {
    end_without_step(metrics);
  } else {
    failed = update(input, metrics);
  }
  metrics.total = seconds_since(start);
  if (input.observer != nullptr && !metrics.skipped) health_ = gather_health(replica_->model, *probe_);
  if (reference_) verify(input, metrics.skipped);

  metrics.peak_bytes = replica_->resident_bytes() + (probe_ ? probe_->bytes() : 0);
  metrics.bytes = communicator_.bytes();
  for (std::size_t p = 0; p < purpose_count; ++p)
    metrics.bytes.sent[p] -= reported_.sent[p];
  reported_ = communicator_.bytes();
  if (hooks_.before_exchange) hooks_.before_exchange(metrics);
  const StepMetrics combined = combine(communicator_, metrics, tokens);
  if (!combined.skipped && combined.failed > 0) report_failures(failed);
  check_matrices(combined);
  return combined;
}

StepInput Trainer::begin_update() {
  StepInput input;
  input.schedule = options_.schedule.factor(step_);
  input.step = taken_ + 1;
  health_ = {};
  failures_of_step_.clear();
  if (probe_ && step_ % options_.health_every == 0) {
    probe_->begin_step();
    input.observer = &*probe_;
  }
  if (options_.sharding.step_in_backward) replica_->strategy.step_in_backward(input, hooks_.before_update);
  return input;
}

std::vector<std::string> Trainer::update(const StepInput& input, StepMetrics& metrics) {
  if (!options_.sharding.step_in_backward && hooks_.before_update) hooks_.before_update();
  const auto start = Clock::now();
  ++taken_;
  const StepResult result = replica_->strategy.step(input);
  metrics.matrices = result.matrices_orthogonalized;
  metrics.failed = failures_ = static_cast<std::int64_t>(result.failed.size());
  optimizer_times_.add(result);
  metrics.optimizer = replica_->strategy.unit_step_seconds() + seconds_since(start);
  return result.failed;
}

void Trainer::verify(StepInput input, bool skipped) {
  std::vector<double> losses;
  PassTimes times;
  run_passes(*reference_, losses, times);
  if (!options_.sharding.step_in_backward) verify_gradients(*replica_, *reference_, step_);
  if (skipped) return;
  input.observer = nullptr;
  reference_->strategy.step(input);
  verify_weights(*replica_, *reference_, step_);
}

void Trainer::report_failures(const std::optional<std::vector<std::string>>& failed) {
  std::vector<NonFinite> mine;
  if (options_.sharding.step_in_backward) {
    mine = replica_->strategy.unit_failures();
  } else if (!failed || !failed->empty()) {
    mine = non_finite_values(*replica_->optimizer, std::nullopt, failed.value_or(std::vector<std::string>()));
  }
  failures_of_step_ = gather_failures(replica_->model, mine);
}

void Trainer::end_without_step(const StepMetrics& metrics) {
  report_failures(std::nullopt);
  if (!options_.sharding.step_in_backward) return;
  throw InputError(
      fmt::format("--step-in-backward: step {} has a loss of {} and a gradient norm of {}: {}; expected finite ones, "
                  "because units that have been stepped do not go back (without the option the step is skipped)",
                  step_, metrics.loss, metrics.gradient_norm, to_text(failures_of_step_)));
}

OptimizerProfile Trainer::measured_optimizer() {
  return optimizer_times_.gather(communicator_, replica_->model.plan().world_size);
}

void Trainer::check_matrices(const StepMetrics& metrics) const {
  if (metrics.skipped || metrics.failed > 0 || options_.optimizer.matrices == MatrixOptimizer::adamw) return;
  const std::int64_t expected = replica_->strategy.orthogonalizations();
  if (metrics.matrices != expected) {
    throw ContractError(fmt::format("step {}: {} matrices were stepped by their optimizer, expected {}", metrics.step,
                                    metrics.matrices, expected));
  }
}

std::vector<std::int32_t> Trainer::sample(std::vector<std::int32_t> prompt, std::int64_t count) {
  return train::sample(replica_->model, options_.shape, std::move(prompt),
                       {count, options_.temperature, options_.seed, step_, options_.compute_dtype});
}

double Trainer::evaluate() {
  const int ranks = communicator_.size();
  const std::int64_t passes = options_.passes(ranks) * options_.evaluation_batches;
  const std::int64_t sequences = options_.batch_size * options_.evaluation_batches;
  std::vector<double> losses;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t index = pass * ranks + communicator_.rank();
    losses.push_back(run_evaluation_pass(
        *replica_, data_.validation_batch(index * options_.micro_batch, options_.micro_batch, sequences)));
  }
  return fold_losses(communicator_, losses, options_.sharding.sum_group) /
         static_cast<double>(sequences * options_.sequence_length());
}

}  // namespace matrixfsdp::train
