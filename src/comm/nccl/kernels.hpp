#pragma once

#include <functional>

#include <cuda_runtime_api.h>

#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::nccl {

/// The stream of Kokkos' kernels. On a host build they have ended when they return, and the default stream stands for
/// them.
cudaStream_t kernel_stream();

/// Kokkos' kernels on `stream`; on a host build they run where they are called.
ExecutionSpace space_on(cudaStream_t stream);

/// Starts kernels on the space that it is given.
using Kernel = std::function<void(const ExecutionSpace& space)>;

/// Runs `kernel` in the order of `stream`; `space` is on it. `kernel` lives until that is complete, and does not throw.
void enqueue_kernel(cudaStream_t stream, const ExecutionSpace& space, Kernel& kernel);

}  // namespace matrixfsdp::nccl
