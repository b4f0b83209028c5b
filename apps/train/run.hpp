#pragma once

#include <matrixfsdp/comm/session.hpp>

#include "apps/train/options.hpp"

namespace matrixfsdp::train {

/// A whole run: data, model, resume, steps, validation, samples, checkpoints, metrics, summary. Returns the exit code.
int run(Session& session, const Options& options);

}  // namespace matrixfsdp::train
