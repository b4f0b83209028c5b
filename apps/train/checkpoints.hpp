#pragma once

#include <string>

#include "apps/train/trainer.hpp"

namespace matrixfsdp::train {

/// Collective. Follows Options::resume, and returns the checkpoint that the run continues from, or an empty string.
/// Throws InputError when the checkpoint folder holds checkpoints but resume is "none", or when the checkpoint is of
/// another model or seed. Other options that change what the run computes (batch size, ...) are logged, not refused.
std::string resume_checkpoint(Trainer& trainer);

/// Collective. Writes the step that was just done, and removes the oldest beyond Options::keep_last. Returns its
/// folder.
std::string save_checkpoint(Trainer& trainer, double loss);

}  // namespace matrixfsdp::train
