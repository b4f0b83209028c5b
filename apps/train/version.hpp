#pragma once

#include <string>

namespace matrixfsdp::train {

/// Version of the library and of everything it was built with: Kokkos and its backend, MPI, HDF5, BLAS.
std::string version_text();

}  // namespace matrixfsdp::train
