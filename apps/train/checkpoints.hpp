#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <matrixfsdp/checkpoint/saver.hpp>

#include "apps/train/stop_signal.hpp"
#include "apps/train/trainer.hpp"

namespace matrixfsdp::train {

/// Checkpoints of a run, as its options say; without a folder nothing happens. Everything but the hooks of a step is
/// collective, and fails alike on all ranks.
class Checkpoints {
 public:
  /// Holds the folder for this job: InputError where another job saves into it. `stop_signal` (or null) is asked in
  /// every step, for StepMetrics. Both must outlive this.
  Checkpoints(Trainer& trainer, StopSignal* stop_signal);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// Follows Options::resume, and returns the checkpoint that the run continues from, or an empty string. Throws
  /// InputError when the checkpoint folder holds checkpoints but resume is "none", or when the checkpoint is of
  /// another model or seed. Other options that change what the run computes (batch size, ...) are logged, not refused.
  std::string resume();

  /// After each step, with its figures: publishes what all ranks have written meanwhile, or says why one has not.
  void after_step(const StepMetrics& metrics);
  /// The step that was just done: written now, or, with CheckpointMode::asynchronous, while the next ones are computed.
  /// Waits for an earlier save first.
  void save(double loss);
  /// Waits for the save that is under way.
  void finish();

  /// The last one that was published or read; empty: none.
  [[nodiscard]] const std::string& newest() const { return newest_; }
  /// That were started, and the seconds for which training stood still on this rank because of them.
  [[nodiscard]] std::int64_t saves() const { return saves_; }
  [[nodiscard]] double stopped_seconds() const { return stopped_; }

 private:
  [[nodiscard]] std::optional<io::LoadedCheckpoint> load() const;
  void published(const std::optional<std::string>& folder);

  Trainer& trainer_;
  std::optional<io::CheckpointSaver> saver_;
  std::string newest_;
  std::int64_t saves_ = 0;
  double stopped_ = 0;
  double reported_ = 0;  // of stopped_, in metrics lines
};

}  // namespace matrixfsdp::train
