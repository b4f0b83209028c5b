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

}  // namespace matrixfsdp::testing
