#pragma once

#include <string>

#include <matrixfsdp/plan/optimizer_profile.hpp>

/// @file
/// Measured times of the optimizer's matrices, as a run's metrics file has them: a line with the object
/// "optimizer_profile" among lines of JSON with other things.
namespace matrixfsdp::io {

/// {"world_size","measured":[{"rank","rows","cols","parts","steps","seconds"}]} in one line. Throws InputError for an
/// invalid profile.
std::string to_text(const OptimizerProfile& profile);

/// Of the last line that has one. Strict: every field, no other, each in range. Throws IoError: source, line, field,
/// what is there, what was expected; and where no line has one.
OptimizerProfile parse_optimizer_profile(const std::string& lines, const std::string& source);

/// Throws IoError as parse_optimizer_profile, and where the file cannot be read.
OptimizerProfile read_optimizer_profile(const std::string& path);

}  // namespace matrixfsdp::io
