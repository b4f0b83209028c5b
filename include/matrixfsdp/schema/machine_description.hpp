#pragma once

#include <string>

#include <matrixfsdp/plan/machine.hpp>

/// @file
/// A machine as a file: JSON with "format", "format_version" and every figure of Machine. Doubles are written so that
/// the same bits are read again.
namespace matrixfsdp::io {

/// The text of such a file. Throws InputError for an invalid machine (see validate).
std::string to_text(const Machine& machine);

/// Strict: every field, no other, each in range. Throws IoError: source, field, what is there, what was expected.
Machine parse_machine(const std::string& text, const std::string& source);

/// Throws IoError as parse_machine, and where the file cannot be read.
Machine read_machine(const std::string& path);

/// Replaces `path` or leaves it as it was. Throws IoError.
void write_machine(const std::string& path, const Machine& machine);

}  // namespace matrixfsdp::io
