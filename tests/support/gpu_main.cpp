#include <cstdio>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <matrixfsdp/tensor/tensor.hpp>

#include "support/device_obstacle.hpp"

/// Tests of the real libraries of CUDA in a build whose Kokkos may be for the host: they say why they cannot run.
namespace {

std::string obstacle_of_libraries() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  return std::string("no device is visible (") + cudaGetErrorString(code) + ")";
}

std::string obstacle_of_tensors() {
  const matrixfsdp::Tensor<float> probe = matrixfsdp::make_tensor<float>("probe", 1);
  cudaPointerAttributes attributes{};
  const bool known = cudaPointerGetAttributes(&attributes, probe.data()) == cudaSuccess;
  if (known && attributes.type != cudaMemoryTypeUnregistered) return {};
  return std::string("no device reaches tensors in ") + matrixfsdp::MemorySpace::name();
}

int skip(const std::string& obstacle) {
  std::printf("skipped: %s\n", obstacle.c_str());
  return matrixfsdp::test::exit_skipped;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const std::string obstacle = obstacle_of_libraries(); !obstacle.empty()) return skip(obstacle);
  Kokkos::ScopeGuard kokkos(argc, argv);
  if (const std::string obstacle = obstacle_of_tensors(); !obstacle.empty()) return skip(obstacle);
  return RUN_ALL_TESTS();
}
