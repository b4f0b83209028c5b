#pragma once

#include <string>

#include "io/schema/hdf5.hpp"

namespace matrixfsdp::io {

/// An HDF5 file that is being written. After the first failure every call throws: HDF5 itself reports success for what
/// follows a failed write. One that was not closed by close() is abandoned, and not to be used.
class NewFile {
 public:
  /// Throws IoError where the file exists or cannot be created.
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] hid_t get() const { return file_.get(); }

  /// Calls `body`, whose exceptions are the failures.
  template <class Body>
  void write(const Body& body) {
    start();
    const QuietErrors quiet;
    body();
    failed_ = false;
  }

  /// Inside write(): the disk begins with what has been written, instead of waiting for close(), which tells its
  /// errors.
  void send_to_disk() const;

  /// Flushes, closes, and waits until the file is on disk. The last call.
  void close();

 private:
  void start();

  std::string path_;
  Handle file_;
  bool failed_ = false;
};

/// Properties of a new dataset or link: groups on its path are made where they are missing.
Handle make_link_properties(const Location& location);

}  // namespace matrixfsdp::io
