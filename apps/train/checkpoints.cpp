#include "apps/train/checkpoints.hpp"

#include <chrono>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

namespace matrixfsdp::train {
namespace {

/// Adds the seconds of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::chrono::milliseconds deadline_of(const Options& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * options.checkpoint_timeout_seconds));
}

/// What may change between the parts of a run, but changes what it computes: said, not refused.
void warn_of_changes(const Trainer& trainer, const io::TrainingState& state) {
  const nlohmann::json before = nlohmann::json::parse(state.configuration);
  const nlohmann::json now = to_json(trainer.options());
  for (const char* name : {"batch_size", "micro_batch", "sum_group", "accumulate", "param_dtype", "reduce_dtype",
                           "unit_policies", "optimizer", "threads", "data", "lr_schedule", "steps"}) {
    if (before.contains(name) && before[name] != now[name]) {
      log_line(fmt::format("resumed with another {}: {} instead of {}", name, now[name].dump(), before[name].dump()));
    }
  }
}

io::TrainingState training_state(const Trainer& trainer, double loss) {
  const Options& options = trainer.options();
  io::TrainingState state;
  state.step = state.data_step = trainer.steps_done();
  state.optimizer_steps = trainer.steps_taken();
  state.seed = options.seed;
  const Schedule& schedule = options.schedule;
  state.schedule = nlohmann::json{{"kind", name_of(schedule.kind)},
                                  {"total_steps", schedule.total_steps},
                                  {"warmup_steps", schedule.warmup_steps},
                                  {"final_factor", schedule.final_factor},
                                  {"decay_share", schedule.decay_share}}
                       .dump();
  nlohmann::json configuration = to_json(options);
  configuration["text"] = trainer.data().is_text();
  state.configuration = configuration.dump();
  state.sum_group = configuration.value("sum_group", std::int64_t{1});
  state.loss = loss;
  return state;
}

}  // namespace

Checkpoints::Checkpoints(Trainer& trainer, StopSignal* stop_signal) : trainer_(trainer) {
  const Options& options = trainer.options();
  if (options.checkpoint_folder.empty()) return;
  io::SaveOptions save;
  save.keep_last = static_cast<int>(options.keep_last);
  save.deadline = deadline_of(options);
  Replica& replica = trainer.replica();
  saver_.emplace(options.checkpoint_folder, replica.model, *replica.optimizer, save);
  StepHooks hooks;
  hooks.before_update = [this] {
    const Stopwatch watch(stopped_);
    saver_->before_update();
  };
  hooks.before_exchange = [this, stop_signal](StepMetrics& metrics) {
    if (stop_signal != nullptr) metrics.stop_signal = stop_signal->received();
    metrics.save_progress = saver_->progress();
    metrics.checkpoint = stopped_ - std::exchange(reported_, stopped_);
  };
  trainer_.set_hooks(std::move(hooks));
}

Checkpoints::~Checkpoints() {
  trainer_.set_hooks({});
}

std::optional<io::LoadedCheckpoint> Checkpoints::load() const {
  const Options& options = trainer_.options();
  Replica& replica = trainer_.replica();
  if (options.resume != "none" && options.resume != "auto") {
    return io::LoadedCheckpoint{
        options.resume, io::load_checkpoint(options.resume, replica.model, *replica.optimizer, deadline_of(options))};
  }
  if (options.checkpoint_folder.empty()) return std::nullopt;
  if (options.resume == "auto") {
    return io::load_latest(options.checkpoint_folder, replica.model, *replica.optimizer, deadline_of(options));
  }
  const auto latest = io::find_latest(trainer_.communicator(), options.checkpoint_folder, deadline_of(options));
  if (latest) {
    throw InputError(
        fmt::format("--checkpoint-dir '{}': it holds {}; expected --resume auto to continue, or another folder",
                    options.checkpoint_folder, std::filesystem::path(*latest).filename().string()));
  }
  return std::nullopt;
}

std::string Checkpoints::resume() {
  const auto loaded = load();
  if (!loaded) return {};
  const auto& [folder, state] = *loaded;
  if (state.seed != trainer_.options().seed) {
    throw InputError(
        fmt::format("--seed {}: the checkpoint {} was made with {}; expected the same, so that the data go on",
                    trainer_.options().seed, folder, state.seed));
  }
  if (Replica* const reference = trainer_.reference())  // or --verify would compare with a copy that starts anew
    io::load_checkpoint(folder, reference->model, *reference->optimizer, deadline_of(trainer_.options()));
  trainer_.restore(state.step, state.optimizer_steps);
  if (trainer_.communicator().rank() == 0) {
    log_line(fmt::format("resumed from {}", folder));
    warn_of_changes(trainer_, state);
  }
  newest_ = folder;
  return folder;
}

void Checkpoints::published(const std::optional<std::string>& folder) {
  if (folder) newest_ = *folder;
}

void Checkpoints::after_step(const StepMetrics& metrics) {
  if (!saver_) return;
  const Stopwatch watch(stopped_);
  published(saver_->advance(metrics.save_progress));
}

void Checkpoints::save(double loss) {
  if (!saver_) return;
  const Stopwatch watch(stopped_);
  published(saver_->finish());
  ++saves_;
  const io::TrainingState state = training_state(trainer_, loss);
  if (trainer_.options().checkpoint_mode == CheckpointMode::synchronous) {
    published(saver_->save(state));
  } else {
    saver_->start(state);
  }
}

void Checkpoints::finish() {
  if (!saver_) return;
  const Stopwatch watch(stopped_);
  published(saver_->finish());
}

}  // namespace matrixfsdp::train
