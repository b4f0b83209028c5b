#pragma once

#include <cstdint>
#include <string>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

namespace matrixfsdp::linalg::cuda {

/// What is called, for messages: the routine, and our extents, -1 where there are none.
struct Call {
  const char* name;
  std::int64_t rows = -1;   ///< of the result
  std::int64_t cols = -1;   ///< of the result
  std::int64_t inner = -1;  ///< terms of each entry
};

/// "cublasSgemm of 3x4 with 5 terms".
std::string to_string(const Call& call);

/// Throw DeviceError "<call> failed with code 13: CUBLAS_STATUS_EXECUTION_FAILED" unless the code is success.
void check(cublasStatus_t code, const Call& call);
void check(cusolverStatus_t code, const Call& call);
void check(cudaError_t code, const Call& call);

}  // namespace matrixfsdp::linalg::cuda
