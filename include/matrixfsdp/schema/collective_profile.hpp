#pragma once

#include <string>

#include <matrixfsdp/plan/collective_model.hpp>

/// @file
/// A calibration of collectives as a file: JSON with "format", "format_version", what it was measured on, and the
/// figures of each class of links (null where the job had none of it). Doubles are written so that the same bits are
/// read again.
namespace matrixfsdp::io {

/// The text of such a file. Throws InputError for an invalid profile (see validate).
std::string to_text(const CollectiveProfile& profile);

/// Strict: every field, no other, each in range. Throws IoError: source, field, what is there, what was expected.
CollectiveProfile parse_collective_profile(const std::string& text, const std::string& source);

/// Throws IoError as parse_collective_profile, and where the file cannot be read.
CollectiveProfile read_collective_profile(const std::string& path);

/// Replaces `path` or leaves it as it was. Throws IoError.
void write_collective_profile(const std::string& path, const CollectiveProfile& profile);

}  // namespace matrixfsdp::io
