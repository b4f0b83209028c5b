#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include <Kokkos_Core.hpp>
#include <fmt/format.h>
#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "comm/mpi/channel.hpp"

namespace matrixfsdp::mpi {
namespace {

constexpr std::array<std::pair<std::string_view, GpuAware>, 3> names{{
    {"auto", GpuAware::automatic},
    {"on", GpuAware::on},
    {"off", GpuAware::off},
}};

/// Of the devices that this build's tensors are on. MPICH: MPIX_GPU_query_support, since 4.0; Open MPI:
/// MPIX_Query_cuda_support and MPIX_Query_rocm_support, where its extensions have them. No library that cannot be asked
/// is taken to know.
[[maybe_unused]] bool library_knows_devices() {
  int known = 0;
#if defined(KOKKOS_ENABLE_CUDA) && defined(MPIX_GPU_SUPPORT_CUDA)
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &known) != MPI_SUCCESS) known = 0;
#elif defined(KOKKOS_ENABLE_HIP) && defined(MPIX_GPU_SUPPORT_HIP)
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &known) != MPI_SUCCESS) known = 0;
#elif defined(KOKKOS_ENABLE_CUDA) && defined(MPIX_CUDA_AWARE_SUPPORT)
  known = MPIX_Query_cuda_support();
#elif defined(KOKKOS_ENABLE_HIP) && defined(OMPI_HAVE_MPI_EXT_ROCM) && OMPI_HAVE_MPI_EXT_ROCM
  known = MPIX_Query_rocm_support();
#endif
  return known != 0;
}

}  // namespace

GpuAware parse_gpu_aware(std::string_view name) {
  for (const auto& [known, value] : names) {
    if (known == name) return value;
  }
  throw InputError(fmt::format("GPU-aware MPI '{}': expected one of auto, on, off", name));
}

std::string_view name_of(GpuAware gpu_aware) {
  for (const auto& [name, value] : names) {
    if (value == gpu_aware) return name;
  }
  throw ContractError(fmt::format("GPU-aware MPI {}: expected one of the enumeration", static_cast<int>(gpu_aware)));
}

bool stages_by_default() {
  if constexpr (std::is_same_v<MemorySpace, Kokkos::HostSpace>)
    return false;
  else
    return !library_knows_devices();
}

void set_gpu_aware(Communicator& communicator, GpuAware gpu_aware) {
  communicator.implementation().channel->stages =
      gpu_aware == GpuAware::automatic ? stages_by_default() : gpu_aware == GpuAware::off;
}

bool stages_messages(const Communicator& communicator) {
  return communicator.implementation().channel->stages;
}

}  // namespace matrixfsdp::mpi
