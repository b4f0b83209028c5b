#include "support/cublas_double/device.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <cuda_runtime_api.h>

namespace matrixfsdp::cublas_double {
namespace {

struct State {
  Control control;
  std::vector<std::function<void()>> work;
};

State& state() {
  static State all;
  return all;
}

}  // namespace

Control& control() {
  return state().control;
}

void reset() {
  const int open = control().open_handles;
  state() = {};
  control().open_handles = open;
}

void put_off(std::function<void()> work) {
  state().work.push_back(std::move(work));
}

bool has_work() {
  return !state().work.empty();
}

void do_work() {
  for (const auto& each : state().work)
    each();
  state().work.clear();
}

bool refuse(const char* call, const std::string& rule) {
  std::fprintf(stderr, "cublas double: %s: %s\n", call, rule.c_str());
  ++control().refused;
  return false;
}

bool fails(const char* call) {
  if (control().failing_call != call) return false;
  control().failing_call.clear();
  return true;
}

bool check_matrix(const char* call, const char* name, const void* data, int rows, int leading) {
  if (data == nullptr) return refuse(call, std::string(name) + " is null");
  if (leading < std::max(1, rows)) {
    return refuse(call, std::string(name) + " has leading dimension " + std::to_string(leading) + " for " +
                            std::to_string(rows) + " rows");
  }
  return true;
}

}  // namespace matrixfsdp::cublas_double

using matrixfsdp::cublas_double::control;

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return control().has_device ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? control().capability : 0;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  matrixfsdp::cublas_double::do_work();
  return control().device_is_lost ? cudaErrorIllegalAddress : cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "an illegal memory access was encountered";
}
