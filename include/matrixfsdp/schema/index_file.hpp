#pragma once

#include <string>
#include <string_view>

#include <matrixfsdp/schema/manifest.hpp>

/// @file
/// checkpoint.h5: an HDF5 file with an external link for every dataset of the manifest, so that other programs see one
/// tree. Nothing of ours follows its links.
namespace matrixfsdp::io {

/// Name of the file within a checkpoint.
inline constexpr std::string_view index_name = "checkpoint.h5";

/// Writes FOLDER/checkpoint.h5, flushes it and its folder to disk, and returns its entry of the manifest, which is not
/// added. The links are relative: the folder may move. Throws IoError.
StoredFile write_index_file(const std::string& folder, const Manifest& manifest);

/// Throws IoError unless FOLDER/checkpoint.h5, whose size and content are verified, links every segment of the manifest
/// to its file.
void verify_index_file(const std::string& folder, const Manifest& manifest);

}  // namespace matrixfsdp::io
