#pragma once

#include <string>

namespace matrixfsdp::io {

/// "HDF5 1.10.8": the library that this process runs with.
std::string hdf5_description();

}  // namespace matrixfsdp::io
