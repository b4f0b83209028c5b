#pragma once

#include <string>

#include "apps/train/trainer.hpp"

namespace matrixfsdp::train {

/// Follows Options::resume. Throws InputError when the directory holds checkpoints but resume is "none", or when the
/// checkpoint is of another model, seed or batch.
void resume_checkpoint(Trainer& trainer);

/// Collective. Writes the step that was just done, and removes the oldest beyond Options::keep_last.
void save_checkpoint(Trainer& trainer, double loss);

/// Path of the newest checkpoint, or empty. One rank.
std::string latest_checkpoint(const Options& options);

}  // namespace matrixfsdp::train
