#pragma once

#include <matrixfsdp/comm/session.hpp>

#include "apps/generate/command_line.hpp"

namespace matrixfsdp::generate {

/// Loads, continues, prints. Returns the exit code.
int generate(Session& session, const Command& command);

}  // namespace matrixfsdp::generate
