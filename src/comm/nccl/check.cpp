#include "comm/nccl/check.hpp"

#include <fmt/format.h>

#include <matrixfsdp/comm/nccl.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::nccl {

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw CommunicationError(
      fmt::format("{} failed with code {}: {}", call, static_cast<int>(code), cudaGetErrorString(code)));
}

void check(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  std::string detail = ncclGetLastError(comm);
  for (char& c : detail) {
    if (c == '\n') c = ' ';
  }
  throw CommunicationError(fmt::format("{} failed with code {}: {}{}{}", call, static_cast<int>(code),
                                       ncclGetErrorString(code), detail.empty() ? "" : ": ", detail));
}

std::string library_description() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion", nullptr);
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return fmt::format("NCCL {}.{}.{}, CUDA {}.{}", version / 10000, version / 100 % 100, version % 100, runtime / 1000,
                     runtime / 10 % 100);
}

}  // namespace matrixfsdp::nccl
