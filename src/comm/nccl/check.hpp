#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace matrixfsdp::nccl {

/// Throws CommunicationError with CUDA's own text unless `code` is cudaSuccess.
void check(cudaError_t code, const char* call);

/// Throws CommunicationError with NCCL's own texts unless `code` is ncclSuccess, or ncclInProgress: what a call on a
/// non-blocking communicator says while NCCL goes on in the background. `comm` may be null.
void check(ncclResult_t code, const char* call, ncclComm_t comm);

}  // namespace matrixfsdp::nccl
