#include "io/schema/hdf5.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include <fmt/format.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and written as they are");

herr_t take_first(unsigned /*n*/, const H5E_error2_t* error, void* data) {
  auto& cause = *static_cast<std::string*>(data);
  if (cause.empty() && error->desc != nullptr) cause = error->desc;
  return 0;
}

/// HDF5 describes a failed system call in two lines with time, addresses and sizes; the system's message is in quotes.
std::string one_line(std::string cause) {
  constexpr std::string_view start = "error message = '";
  if (const std::size_t found = cause.find(start); found != std::string::npos) {
    cause.erase(0, found + start.size());
    cause.erase(std::min(cause.find('\''), cause.size()));
  }
  std::replace(cause.begin(), cause.end(), '\n', ' ');
  return cause.empty() ? "HDF5 does not say why" : cause;
}

}  // namespace

QuietErrors::QuietErrors() noexcept
    : taken_(H5Eget_auto2(H5E_DEFAULT, &function_, &data_) >= 0 && H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0) {}

QuietErrors::~QuietErrors() {
  if (taken_) H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

void throw_hdf5(const Location& location, const char* operation) {
  std::string cause;
  // Upward: the innermost cause comes first ("No space left on device"), the API call last.
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &cause);
  const std::string where = location.dataset.empty() ? std::string() : fmt::format(", dataset '{}'", location.dataset);
  throw IoError(fmt::format("'{}'{}: {}: {}", location.path, where, operation, one_line(cause)));
}

Handle element_type(DType dtype, const Location& location) {
  const char* operation = "cannot describe the element type";
  const hid_t base = dtype == DType::float64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
  Handle type = own(H5Tcopy(base), H5Tclose, location, operation);
  if (dtype != DType::bfloat16) return type;
  check(H5Tset_fields(type.get(), 15, 7, 8, 0, 7), location, operation);
  check(H5Tset_precision(type.get(), 16), location, operation);
  check(H5Tset_size(type.get(), 2), location, operation);
  check(H5Tset_ebias(type.get(), 127), location, operation);
  return type;
}

Handle file_access(const Location& location) {
  const char* operation = "cannot set how files are opened";
  Handle access = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, location, operation);
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  check(H5Pset_file_locking(access.get(), 0, 1), location, operation);
#endif
  check(H5Pset_sieve_buf_size(access.get(), 0), location, operation);
  return access;
}

int descriptor_of(const Handle& file, const Location& location) {
  void* handle = nullptr;
  check(H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &handle), location, "has no descriptor");
  return *static_cast<int*>(handle);
}

void abandon(Handle& file) noexcept {
  if (file.get() < 0) return;
#if defined(__linux__)
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &handle) >= 0) {
    const int memory = ::memfd_create("matrixfsdp", MFD_CLOEXEC);
    if (memory >= 0) {
      ::dup2(memory, *static_cast<int*>(handle));
      ::close(memory);
    }
  }
#endif
  file.close();
}

}  // namespace matrixfsdp::io
