#pragma once

#include <string>

#include "apps/tokenize/command_line.hpp"

namespace matrixfsdp::tokenize {

/// Writes what the command asks for, and returns a line for people about each file. Throws InputError, and leaves no
/// file then, and IoError.
std::string tokenize(const Command& command);

}  // namespace matrixfsdp::tokenize
