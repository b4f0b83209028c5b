#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "comm/fold.hpp"

namespace matrixfsdp::nccl {

/// The stream of Kokkos' kernels. On a host build they have ended when they return, and the default stream stands for
/// them.
cudaStream_t kernel_stream();

/// Kokkos' kernels on `stream`; on a host build they run where they are called.
ExecutionSpace space_on(cudaStream_t stream);

struct FoldCall {
  FoldBlock block;
  FoldSums sums;
  std::int64_t count;
};

/// Folds (comm/fold.hpp) in the order of `stream`; `space` is on it. `call` lives until the fold is complete.
void enqueue_fold(cudaStream_t stream, const ExecutionSpace& space, FoldCall& call);

}  // namespace matrixfsdp::nccl
