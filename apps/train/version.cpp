#include "apps/train/version.hpp"

#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/nccl.hpp>
#include <matrixfsdp/core/version.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/schema/description.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::train {

std::string version_text() {
  return fmt::format("MatrixFSDP {}\nKokkos {}.{}.{} ({})\n{}\n{}\n{}\n{}\n{}", version(), KOKKOS_VERSION / 10000,
                     KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100, ExecutionSpace::name(),
                     mpi::library_description(), io::hdf5_description(), linalg::blas_description(),
                     linalg::onednn_description(), nccl::library_description());
}

}  // namespace matrixfsdp::train
