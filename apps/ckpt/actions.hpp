#pragma once

#include "apps/ckpt/command_line.hpp"

/// The commands. Each prints its result on standard output (JSON where asked for) and returns the exit code; what goes
/// wrong is an exception.
namespace matrixfsdp::ckpt {

/// 1 where a checkpoint is not valid.
int list(const Command& command);

int show(const Command& command);

/// 1 where it is not valid; every problem that is found is told.
int verify(const Command& command);

/// 1 where they differ.
int diff(const Command& command);

int reshard(const Command& command);
int export_tensors(const Command& command);
int import_tensors(const Command& command);

}  // namespace matrixfsdp::ckpt
