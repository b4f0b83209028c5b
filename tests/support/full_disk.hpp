#pragma once

#include <cstdint>
#include <string>

namespace matrixfsdp::testing {

/// While it lives, writes of this process beyond the first `bytes` of a file whose path contains `part` fail with
/// ENOSPC (full_disk.cpp stands between us, or HDF5, and the system's write and pwrite).
class FullDisk {
 public:
  FullDisk(const std::string& part, std::int64_t bytes);
  ~FullDisk();
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
};

/// While it lives, every write of this process to a file whose path contains `part` takes so much longer.
class SlowDisk {
 public:
  SlowDisk(const std::string& part, int milliseconds);
  ~SlowDisk();
  SlowDisk(const SlowDisk&) = delete;
  SlowDisk& operator=(const SlowDisk&) = delete;
};

/// While it lives, this process can create no file whose path contains `part` (EROFS): chmod stops nobody who is root.
class ReadOnlyFolder {
 public:
  explicit ReadOnlyFolder(const std::string& part);
  ~ReadOnlyFolder();
  ReadOnlyFolder(const ReadOnlyFolder&) = delete;
  ReadOnlyFolder& operator=(const ReadOnlyFolder&) = delete;
};

}  // namespace matrixfsdp::testing
