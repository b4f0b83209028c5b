#include "io/schema/hdf5.hpp"

#include <bit>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian and written as they are");

herr_t take_first(unsigned /*n*/, const H5E_error2_t* error, void* data) {
  auto& cause = *static_cast<std::string*>(data);
  if (cause.empty() && error->desc != nullptr) cause = error->desc;
  return 0;
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
  throw IoError(fmt::format("'{}'{}: {}: {}", location.path, where, operation,
                            cause.empty() ? std::string("HDF5 does not say why") : cause));
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
  return access;
}

}  // namespace matrixfsdp::io
