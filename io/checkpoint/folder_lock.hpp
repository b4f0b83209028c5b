#pragma once

#include <string>

namespace matrixfsdp::io {

/// Holds FOLDER/.lock for one job; the system gives it back when the process ends, however it ends.
class FolderLock {
 public:
  /// Creates the folder if need be. Throws InputError for what is no folder, and, naming who holds it, where another
  /// process (or another lock of this one) does; IoError where the folder or file cannot be made. A file system without
  /// locks is logged.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace matrixfsdp::io
