#include "apps/train/checkpoints.hpp"

#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

namespace matrixfsdp::train {
namespace {

/// The checkpoint to start from, if any.
std::optional<std::string> chosen_checkpoint(Trainer& trainer) {
  const Options& options = trainer.options();
  if (options.resume != "none" && options.resume != "auto") return options.resume;
  if (options.checkpoint_folder.empty()) return std::nullopt;
  auto latest = io::find_latest(trainer.communicator(), options.checkpoint_folder);
  if (latest && options.resume == "none") {
    throw InputError(
        fmt::format("--checkpoint-dir '{}': it holds {}; expected --resume auto to continue, or another folder",
                    options.checkpoint_folder, std::filesystem::path(*latest).filename().string()));
  }
  return latest;
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

}  // namespace

std::string resume_checkpoint(Trainer& trainer) {
  const std::optional<std::string> folder = chosen_checkpoint(trainer);
  if (!folder) return {};
  Replica& replica = trainer.replica();
  const io::TrainingState state = io::load_checkpoint(*folder, replica.model, *replica.optimizer);
  if (Replica* const reference = trainer.reference())  // or --verify would compare with a copy that starts anew
    io::load_checkpoint(*folder, reference->model, *reference->optimizer);
  if (state.seed != trainer.options().seed) {
    throw InputError(
        fmt::format("--seed {}: the checkpoint {} was made with {}; expected the same, so that the data go on",
                    trainer.options().seed, *folder, state.seed));
  }
  trainer.restore(state.step, state.optimizer_steps);
  if (trainer.communicator().rank() == 0) {
    log_line(fmt::format("resumed from {}", *folder));
    warn_of_changes(trainer, state);
  }
  return *folder;
}

std::string save_checkpoint(Trainer& trainer, double loss) {
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
  const nlohmann::json configuration = to_json(options);
  state.configuration = configuration.dump();
  state.sum_group = configuration.value("sum_group", std::int64_t{1});
  state.loss = loss;
  io::SaveOptions save;
  save.keep_last = static_cast<int>(options.keep_last);
  return io::save_checkpoint(options.checkpoint_folder, trainer.replica().model, *trainer.replica().optimizer, state,
                             save);
}

}  // namespace matrixfsdp::train
