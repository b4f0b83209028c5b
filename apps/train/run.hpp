#pragma once

#include <matrixfsdp/comm/session.hpp>

#include "apps/train/options.hpp"
#include "apps/train/stop_signal.hpp"

namespace matrixfsdp::train {

/// The run was told to stop, has saved, and can be continued: EX_TEMPFAIL of sysexits.h, on which batch systems
/// requeue.
inline constexpr int exit_requeue = 75;

/// A whole run: data, model, resume, steps, validation, samples, checkpoints, metrics, summary. Returns the exit code.
/// Where a rank has a `stop_signal` after a step, all ranks save and return exit_requeue.
int run(Session& session, const Options& options, StopSignal* stop_signal);

}  // namespace matrixfsdp::train
