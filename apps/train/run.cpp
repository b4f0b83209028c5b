#include "apps/train/run.hpp"

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/schema/optimizer_profile.hpp>

#include "apps/train/checkpoints.hpp"
#include "apps/train/data.hpp"
#include "apps/train/progress.hpp"
#include "apps/train/prompt.hpp"
#include "apps/train/run_header.hpp"
#include "apps/train/summary.hpp"
#include "apps/train/tensorboard.hpp"
#include "apps/train/trainer.hpp"

namespace matrixfsdp::train {
namespace {

bool due(std::int64_t every, std::int64_t step) {
  return every > 0 && step % every == 0;
}

/// One run; rank 0 writes and speaks.
class Run {
 public:
  Run(Session& session, const Options& options, StopSignal* stop_signal)
      : session_(session),
        communicator_(session.world()),
        options_(options),
        speaks_(communicator_.rank() == 0),
        data_(communicator_, options),
        trainer_(communicator_, options, data_),
        checkpoints_(trainer_, stop_signal) {}

  int execute() {
    if (!options_.prompt.empty())
      prompt_ = train::prompt_tokens(options_.prompt, data_.is_text(), options_.shape.vocabulary);
    checkpoints_.resume();
    open_metrics();
    announce();
    if (metrics_) metrics_->write(run_header(trainer_, plan_report_));
    if (trainer_.steps_done() >= options_.steps && speaks_) {
      log_line(fmt::format("step {} of --steps {} is already done; raise --steps to train on", trainer_.steps_done(),
                           options_.steps));
    }
    summary_.first_step = trainer_.steps_done() + 1;
    Progress progress(options_.steps, options_.progress_line);
    while (trainer_.steps_done() < options_.steps && stop_signal_ == 0)
      train_step(progress);
    if (speaks_) progress.finish();
    if (trainer_.steps_done() < options_.steps) return leave_for_requeue();
    summary_.last_step = trainer_.steps_done();
    finish();
    return exit_ok;
  }

 private:
  void announce() {
    const MemoryOptions memory = memory_options();
    plan_report_ = report(trainer_.replica().model.spec(), trainer_.replica().model.plan(), memory);
    if (!speaks_) return;
    log_line(session_.description());
    log_line(trainer_.backend());
    log_line(fmt::format("{} parameters, {} matrices; {} training and {} validation tokens",
                         element_count(trainer_.replica().model.spec()), matrix_count(trainer_.replica().model.spec()),
                         data_.training_tokens(), data_.validation_tokens()));
    const Plan& plan = trainer_.replica().model.plan();
    log_line(fmt::format(
        "plan {}: imbalance of bytes {:.3f} (lower bound {:.3f}), of optimizer work {:.3f} (lower bound {:.3f})",
        plan.planner, plan_report_.imbalance_bytes, plan_report_.lower_bound_bytes, plan_report_.imbalance_flops,
        plan_report_.lower_bound_flops));
    const auto& measured = trainer_.options().planner.profile;
    if (measured && measured->world_size != plan.world_size) {
      log_line(
          fmt::format("--profile '{}': measured on {} ranks, not {}: only the times of matrices are used, as if "
                      "all ranks were equally fast",
                      options_.planner_profile, measured->world_size, plan.world_size));
    }
    if (options_.automatic_collectives) {
      log_line("collectives: " + to_text(trainer_.collectives().units));
      log_line("chosen from a calibration: " + to_text(trainer_.collectives().profile));
    }
    if (plan_report_.spare_ranks > 0) {
      log_line(fmt::format(
          "{} spare ranks own no matrix: the model has fewer matrices than ranks; they share all other work",
          plan_report_.spare_ranks));
    }
  }

  MemoryOptions memory_options() {
    MemoryOptions memory;
    memory.prefetch = options_.sharding.prefetch;
    memory.reduces_in_flight = options_.sharding.reduces_in_flight;
    const int ranks = communicator_.size();
    memory.passes = options_.passes(ranks);
    memory.replicas = ranks / trainer_.replica().model.plan().world_size;
    memory.unsharded_accumulation = options_.sharding.accumulation == Accumulation::unsharded;
    memory.policies = options_.sharding.policies;
    memory.optimizer = options_.planner.optimizer;
    memory.resident_weights = options_.strategy == StrategyKind::zero1_owner;
    memory.collectives = algorithms_of(trainer_.collectives().units);
    if (memory.collectives.empty()) {
      const ShardedModelOptions& sharding = options_.sharding;
      memory.collectives.assign(trainer_.replica().model.plan().units.size(),
                                {sharding.collective, sharding.reduce_collective});
    }
    memory.sum_group = options_.sharding.sum_group;
    memory.step_in_backward = options_.sharding.step_in_backward;
    memory.topology = mpi::topology_of(communicator_);
    return memory;
  }

  void open_metrics() {
    std::string error;
    try {
      if (speaks_ && !options_.metrics.empty())
        metrics_ = std::make_unique<MetricsFile>(options_.metrics, trainer_.steps_done() > 0);
      if (speaks_ && !options_.tensorboard.empty())
        tensorboard_ = std::make_unique<TensorBoardFile>(options_.tensorboard, trainer_.steps_done());
    } catch (const InputError& bad) {
      error = bad.what();
    }
    agree_on_input(communicator_, error);
  }

  void train_step(Progress& progress) {
    const StepMetrics metrics = trainer_.step();
    if (rates_.empty()) summary_.first_loss = metrics.loss;
    summary_.last_loss = metrics.loss;
    summary_.bytes_per_step = metrics.bytes;
    summary_.optimizer_bytes += metrics.bytes[Purpose::optimizer];
    summary_.matrices = metrics.matrices;
    rates_.push_back(metrics.tokens_per_second);
    if (metrics_) metrics_->write(to_json(metrics));
    if (tensorboard_) tensorboard_->write(metrics.step, scalars_of(metrics));
    if (metrics_ && !trainer_.health().is_null())
      metrics_->write({{"step", metrics.step}, {"health", trainer_.health()}});
    tell_failures(progress, metrics);
    if (speaks_) progress.step(metrics);
    const bool last = metrics.step == options_.steps;
    if (due(options_.evaluate_every, metrics.step) && !last) {
      const double loss = trainer_.evaluate();
      if (speaks_) progress.note(fmt::format("step {}  validation loss {:.4f}", metrics.step, loss));
      write_validation(loss);
    }
    if (due(options_.sample_every, metrics.step) && !last) {
      const std::string text = sample();
      if (speaks_) progress.note(fmt::format("step {}  sample: {}", metrics.step, text));
    }
    checkpoints_.after_step(metrics);
    stop_signal_ = metrics.stop_signal;
    if (due(options_.checkpoint_every, metrics.step) || last || stop_signal_ != 0) checkpoints_.save(metrics.loss);
  }

  void write_validation(double loss) {
    if (metrics_) metrics_->write({{"step", trainer_.steps_done()}, {"validation_loss", loss}});
    if (tensorboard_) tensorboard_->write(trainer_.steps_done(), {{"loss/validation", loss}});
  }

  void tell_failures(Progress& progress, const StepMetrics& metrics) {
    const std::vector<Failure>& failures = trainer_.failures();
    if (!metrics.skipped && failures.empty()) return;
    if (metrics_) metrics_->write({{"step", metrics.step}, {"failed", to_json(failures)}});
    if (!speaks_) return;
    progress.note(fmt::format("step {} {}: {}", metrics.step,
                              metrics.skipped ? "was skipped" : "left parameters as they were", to_text(failures)));
  }

  /// The time that a batch system leaves may be short: no validation, no sample.
  int leave_for_requeue() {
    checkpoints_.finish();
    if (speaks_) {
      log_line(fmt::format("stopped by {} after step {} of {}: {} is saved; --resume auto continues",
                           stop_signal_ == SIGTERM ? "SIGTERM" : "SIGUSR1", trainer_.steps_done(), options_.steps,
                           checkpoints_.newest()));
    }
    return exit_requeue;
  }

  std::vector<std::int32_t> prompt_tokens() const {
    return prompt_.empty() ? data_.sample_context(std::min<std::int64_t>(32, options_.sequence_length())) : prompt_;
  }

  std::string sample() { return text_of(trainer_.sample(prompt_tokens(), options_.sample_tokens), data_.is_text()); }

  void finish() {
    summary_.validation_loss = trainer_.evaluate();
    write_validation(summary_.validation_loss);
    if (options_.sample_tokens > 0) summary_.sample = sample();
    summarize_checkpoints();
    summarize_memory();
    write_optimizer_profile();
    const ByteCounts total = final_bytes(communicator_);
    if (metrics_) metrics_->write({{"step", trainer_.steps_done()}, {"bytes_total", to_json(total)}});
    if (!speaks_) return;
    summary_.prompt = text_of(prompt_tokens(), data_.is_text());
    summary_.unigram_entropy = data_.unigram_entropy();
    summary_.verified = options_.verify;
    summary_.backend = trainer_.backend();
    summary_.parameters = element_count(trainer_.replica().model.spec());
    summary_.world_size = communicator_.size();
    summary_.shard_size = trainer_.replica().model.plan().world_size;
    summary_.spare_ranks = plan_report_.spare_ranks;
    summary_.replicated_bytes = plan_report_.replicated_bytes;
    summary_.activation_bytes = trainer_.replica().network.activation_bytes();
    if (!rates_.empty()) {
      std::nth_element(rates_.begin(), rates_.begin() + static_cast<std::ptrdiff_t>(rates_.size() / 2), rates_.end());
      summary_.tokens_per_second = rates_[rates_.size() / 2];
    }
    fmt::print("{}", options_.json
                         ? to_json(summary_).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                         : to_text(summary_, options_));
  }

  /// For the planner of a later run.
  void write_optimizer_profile() {
    if (options_.metrics.empty()) return;
    const OptimizerProfile profile = trainer_.measured_optimizer();
    if (!metrics_ || profile.measured.empty()) return;
    metrics_->write(
        {{"step", trainer_.steps_done()}, {"optimizer_profile", nlohmann::json::parse(io::to_text(profile))}});
  }

  /// The last one is written during the validation.
  void summarize_checkpoints() {
    checkpoints_.finish();
    summary_.checkpoint = checkpoints_.newest();
    summary_.saves = checkpoints_.saves();
    for (const double seconds : all_gather_value(communicator_, Purpose::other, checkpoints_.stopped_seconds(),
                                                 {"checkpoint figures", "", "end"})) {
      summary_.checkpoint_seconds = std::max(summary_.checkpoint_seconds, seconds);
    }
  }

  /// Counted on every rank, predicted by the plan; the largest rank is shown.
  void summarize_memory() {
    const Replica& replica = trainer_.replica();
    const MemoryUse use = replica.model.memory();
    const std::int64_t owned = use.weights + use.gradients + replica.optimizer->state_bytes();
    const std::int64_t window = use.total() - use.weights - use.gradients;
    const OperationLabel label{"memory figures", "", "end"};
    const auto owned_bytes = all_gather_value(communicator_, Purpose::other, owned, label);
    summary_.owned_bytes = *std::max_element(owned_bytes.begin(), owned_bytes.end());
    for (const std::int64_t bytes : all_gather_value(communicator_, Purpose::other, use.gradients, label)) {
      summary_.gradient_bytes = std::max(summary_.gradient_bytes, bytes);
    }
    const auto window_bytes = all_gather_value(communicator_, Purpose::other, window, label);
    summary_.window_bytes = *std::max_element(window_bytes.begin(), window_bytes.end());
    const auto resident = all_gather_value(communicator_, Purpose::other, replica.resident_bytes(), label);
    summary_.peak_bytes = *std::max_element(resident.begin(), resident.end());
    if (metrics_) {
      metrics_->write(
          {{"step", trainer_.steps_done()},
           {"memory", {{"owned_bytes", owned_bytes}, {"window_bytes", window_bytes}, {"resident_bytes", resident}}}});
    }
    for (const RankLoad& load : plan_report_.ranks) {
      summary_.predicted_owned_bytes = std::max(summary_.predicted_owned_bytes, load.owned_bytes);
      summary_.predicted_gradient_bytes = std::max(summary_.predicted_gradient_bytes, load.gradient_bytes);
      summary_.predicted_window_bytes = std::max(summary_.predicted_window_bytes, load.window_bytes);
    }
  }

  Session& session_;
  Communicator& communicator_;
  const Options& options_;
  bool speaks_;
  Data data_;
  Trainer trainer_;
  Checkpoints checkpoints_;
  int stop_signal_ = 0;  // that a rank has received
  PlanReport plan_report_;
  std::vector<std::int32_t> prompt_;      // as given; empty: none
  std::unique_ptr<MetricsFile> metrics_;  // on rank 0, where asked for
  std::unique_ptr<TensorBoardFile> tensorboard_;
  std::vector<double> rates_;  // tokens per second of each step
  Summary summary_;
};

}  // namespace

int run(Session& session, const Options& options, StopSignal* stop_signal) {
  validate(options, session.world().size());
  linalg::set_math(options.math);
  return Run(session, options, stop_signal).execute();
}

}  // namespace matrixfsdp::train
