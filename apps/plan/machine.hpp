#pragma once

#include <matrixfsdp/plan/machine.hpp>

#include "apps/plan/command_line.hpp"

namespace matrixfsdp::apps {

/// The machine that the command names: a preset, this one, or a file. With --nodes that many of its nodes, links and
/// rates as they are; else those that --ranks fill. Throws InputError where there are not as many ranks or they do not
/// fill nodes, IoError for a file that cannot be read.
Machine machine_of(const PlanCommand& command);

}  // namespace matrixfsdp::apps
