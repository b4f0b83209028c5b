#include "comm/nccl/kernels.hpp"

#include "comm/nccl/check.hpp"

namespace matrixfsdp::nccl {

#if defined(KOKKOS_ENABLE_CUDA)

cudaStream_t kernel_stream() {
  return ExecutionSpace().cuda_stream();
}

ExecutionSpace space_on(cudaStream_t stream) {
  return ExecutionSpace(stream);
}

void enqueue_kernel(cudaStream_t /*stream*/, const ExecutionSpace& space, Kernel& kernel) {
  kernel(space);
}

#else

cudaStream_t kernel_stream() {
  return nullptr;
}

ExecutionSpace space_on(cudaStream_t /*stream*/) {
  return {};
}

namespace {

void CUDART_CB run_on_host(void* kernel) {
  (*static_cast<const Kernel*>(kernel))(ExecutionSpace());
}

}  // namespace

void enqueue_kernel(cudaStream_t stream, const ExecutionSpace& /*space*/, Kernel& kernel) {
  check(cudaLaunchHostFunc(stream, run_on_host, &kernel), "cudaLaunchHostFunc");
}

#endif

}  // namespace matrixfsdp::nccl
