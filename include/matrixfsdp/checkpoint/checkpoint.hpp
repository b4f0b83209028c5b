#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/schema/manifest.hpp>

/// @file
/// Checkpoints of sharded runs: FOLDER/step_00000012 with one HDF5 file per rank that holds something and a manifest
/// (io/FORMAT.md). Names are the model's: any W and any plan reads what any other has written. All functions here are
/// collective over the communicator of the model, and fail alike on all ranks: InputError where the user named or
/// changed the wrong thing, IoError where the disk failed or a file is damaged, CommunicationError where ranks disagree
/// about what to do or one has not come within the deadline.
namespace matrixfsdp::io {

/// How saves of one run behave.
struct SaveOptions {
  /// Checkpoints that stay, this one included; older ones are removed. 0: all stay. Less: ContractError.
  int keep_last = 3;
  std::chrono::milliseconds deadline = std::chrono::minutes(30);  ///< of waiting for ranks that still write
};

/// Writes FOLDER/step_N, N = state.step: weights of all parameters (frozen ones too), optimizer state, and `state`.
/// It appears whole or not at all: a temporary folder is filled, flushed, and renamed when all ranks have succeeded;
/// then FOLDER/latest names it, and rank 0 removes old checkpoints. A checkpoint of the same step is replaced; later
/// ones (of a run that was taken back) stay. Removes what interrupted saves have left: one job at a time may save into
/// a folder, and holds FOLDER/.lock meanwhile (InputError for another). A replicated plan is written by rank 0 alone.
/// Returns the new folder. Saves beside training: saver.hpp.
std::string save_checkpoint(const std::string& folder, const ShardedModel& model, Optimizer& optimizer,
                            const TrainingState& state, const SaveOptions& options = {});

/// Fills weights and optimizer state from one checkpoint (a folder as save_checkpoint returns it), and returns the rest
/// of its state. Strict: parameters, shapes, tied names and the optimizer state of every parameter must be those of
/// this run, and every element is filled exactly once from data whose checksums fit; the error names the first that
/// does not. After an error the weights are undefined. Blocks of 1 MiB are held besides the model.
TrainingState load_checkpoint(const std::string& step_folder, ShardedModel& model, Optimizer& optimizer,
                              std::chrono::milliseconds deadline = std::chrono::minutes(30));

/// Fills the weights alone, for a model that is not trained on: as load_checkpoint, whatever optimizer state the
/// checkpoint has.
TrainingState load_weights(const std::string& step_folder, ShardedModel& model,
                           std::chrono::milliseconds deadline = std::chrono::minutes(30));

/// Where load_latest has found what it loaded.
struct LoadedCheckpoint {
  std::string folder;   ///< of the step
  TrainingState state;  ///< how far that run was
};

/// Loads the checkpoint that find_latest names, reading each file once for its checksum, and what a rank needs once
/// more; a step whose data turn out to be damaged is left for an older one too, with a warning. One of another model is
/// an InputError, whatever lies beside it.
std::optional<LoadedCheckpoint> load_latest(const std::string& folder, ShardedModel& model, Optimizer& optimizer,
                                            std::chrono::milliseconds deadline = std::chrono::minutes(30));

/// The checkpoint that a restarted run continues from: the one that FOLDER/latest names; where it is damaged (manifest,
/// size or content of a file) or missing, the next older one, with a warning from rank 0. Nothing where the folder is
/// missing or holds no checkpoint; IoError where it holds some and none is valid.
std::optional<std::string> find_latest(Communicator& communicator, const std::string& folder,
                                       std::chrono::milliseconds deadline = std::chrono::minutes(30));

}  // namespace matrixfsdp::io
