#include "io/schema/new_file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/files.hpp>

namespace matrixfsdp::io {

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  const QuietErrors quiet;
  const Location location{path_, {}};
  // By us first: a file that HDF5 cannot create leaves objects behind that it stumbles over at exit.
  create_file(path_);
  file_ = own(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, file_access(location).get()), H5Fclose, location,
              "cannot be created");
}

NewFile::~NewFile() {
  const QuietErrors quiet;
  abandon(file_);
}

void NewFile::start() {
  if (failed_) throw IoError(fmt::format("'{}': an earlier write failed", path_));
  failed_ = true;  // until everything has succeeded
}

void NewFile::send_to_disk() const {
#if defined(__linux__)
  (void)::sync_file_range(descriptor_of(file_, {path_, {}}), 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

void NewFile::close() {
  start();
  const Location location{path_, {}};
  const QuietErrors quiet;
  check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), location, "cannot be flushed");
  // Some file systems tell of a failed write only now; when it closes, HDF5 must have nothing to lose.
  if (::fsync(descriptor_of(file_, location)) != 0) {
    throw IoError(fmt::format("'{}': cannot be flushed to disk: {}", path_, std::strerror(errno)));
  }
  if (!file_.close()) throw_hdf5(location, "cannot be closed");
  flush_to_disk(path_);
}

Handle make_link_properties(const Location& location) {
  const char* operation = "cannot describe groups";
  Handle properties = own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, location, operation);
  check(H5Pset_create_intermediate_group(properties.get(), 1), location, operation);
  return properties;
}

}  // namespace matrixfsdp::io
