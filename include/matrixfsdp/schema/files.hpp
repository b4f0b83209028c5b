#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// @file
/// Files of which every return code is checked. All functions throw IoError that names the path and what the system
/// said.
namespace matrixfsdp::io {

/// A file by name (within a checkpoint), size and content.
struct StoredFile {
  std::string name;            ///< without a folder
  std::int64_t bytes = 0;      ///< size
  std::uint64_t checksum = 0;  ///< of all its bytes
};

/// Size and checksum of `folder/name`, which is read once, in blocks.
StoredFile describe_file(const std::string& folder, const std::string& name);

/// Throws unless `folder/file.name` has that size (looked at first) and that content.
void verify_file(const std::string& folder, const StoredFile& file);

/// All of a regular file of at most `most_bytes`.
std::string read_text(const std::string& path, std::int64_t most_bytes = std::int64_t{1} << 30);

/// Replaces `path` or leaves it as it was: writes `path.tmp`, flushes it, renames it, flushes the folder. A failure may
/// leave `path.tmp`.
void write_text_durably(const std::string& path, std::string_view text);

/// Renames a file that is on disk to `path`, which it replaces, and flushes the folder.
void put_in_place(const std::string& temporary, const std::string& path);

/// Creates a file that must not exist, and makes sure that the disk takes a block of it: 4096 zeros.
void create_file(const std::string& path);

/// Waits until a file's bytes (or a folder's entries) are on disk.
void flush_to_disk(const std::string& path);

}  // namespace matrixfsdp::io
