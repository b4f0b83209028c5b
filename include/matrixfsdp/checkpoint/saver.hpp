#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <matrixfsdp/checkpoint/checkpoint.hpp>

namespace matrixfsdp::io {

/// How far a save is on one rank. The largest of all ranks' is the job's.
enum class SaveProgress : std::int32_t {
  idle,     ///< no save is under way
  ready,    ///< this rank's file is on disk
  working,  ///< the writer has not come to the end
  failed,   ///< the writer has met an error, or the deadline has passed
};

/// Saves of one run into one folder, also while training goes on:
///
///   saver.start(state);                      // after a step: returns at once
///   ... forward and backward of the next step, while a thread of each rank writes ...
///   saver.before_update();                   // copies what has not been written yet
///   optimizer->step(...);
///   saver.advance(all ranks' progress());    // after the step: publishes when all ranks are ready
///
/// All HDF5 calls, and all others that wait for the disk, are the writer thread's, which makes no MPI call; the ranks
/// agree in advance(), on the thread that calls it. Besides the model a rank holds its largest tensor, and room
/// for what before_update() has had to copy so far. A rank that writes nothing takes part.
///
/// Functions are collective unless said otherwise, and fail alike on all ranks, as those of checkpoint.hpp do. After a
/// failure nothing of the save is left, and the next one may start.
class CheckpointSaver {
 public:
  /// Creates the folder, and holds it for this job: InputError where another job saves into it. Model and optimizer
  /// must outlive the saver. Throws ContractError for options that SaveOptions does not allow.
  CheckpointSaver(std::string folder, const ShardedModel& model, Optimizer& optimizer, const SaveOptions& options);
  /// Not collective. Gives up a save that is under way; a thread that a hanging disk holds is left behind.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Writes FOLDER/step_N as io::save_checkpoint does, and returns it. Waits for everything.
  std::string save(const TrainingState& state);

  /// Starts to write what save() would. Throws ContractError while another save is under way.
  void start(const TrainingState& state);
  /// Not collective: before weights or optimizer state change. Nothing where no save is under way.
  void before_update();
  /// Not collective. Fails where the deadline of the save has passed.
  [[nodiscard]] SaveProgress progress();
  /// After each step, with the largest progress() of all ranks. A new folder when one has just been published. Waits
  /// for no disk, unless a rank has failed: then for what the others have begun, a few seconds at most.
  std::optional<std::string> advance(SaveProgress all);
  /// Waits for the save that is under way, and returns its folder; nothing where none is.
  std::optional<std::string> finish();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp::io
