#include <fmt/format.h>
#include <hdf5.h>

#include <matrixfsdp/schema/description.hpp>

namespace matrixfsdp::io {

std::string hdf5_description() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "HDF5, version unknown";
  return fmt::format("HDF5 {}.{}.{}", major, minor, release);
}

}  // namespace matrixfsdp::io
