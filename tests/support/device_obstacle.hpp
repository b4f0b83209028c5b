#pragma once

#include <string>

#include <Kokkos_Core.hpp>

/// Builds for devices are made, and their tests listed, on machines without one.
namespace matrixfsdp::test {

/// Exit code of a test program that cannot run here, for CTest.
inline constexpr int exit_skipped = 77;

/// Why Kokkos cannot start: "no device is visible (...)"; empty where it can.
inline std::string device_obstacle() {
#if defined(KOKKOS_ENABLE_CUDA)
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  return std::string("no device is visible (") + cudaGetErrorString(code) + ")";
#elif defined(KOKKOS_ENABLE_HIP)
  int count = 0;
  const hipError_t code = hipGetDeviceCount(&count);
  if (code == hipSuccess && count > 0) return {};
  return std::string("no device is visible (") + hipGetErrorString(code) + ")";
#else
  return {};
#endif
}

}  // namespace matrixfsdp::test
