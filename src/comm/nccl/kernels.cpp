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

void enqueue_fold(cudaStream_t /*stream*/, const ExecutionSpace& space, FoldCall& call) {
  start_fold(space, call.block, call.sums, call.count);
}

#else

cudaStream_t kernel_stream() {
  return nullptr;
}

ExecutionSpace space_on(cudaStream_t /*stream*/) {
  return {};
}

namespace {

void CUDART_CB fold_on_host(void* data) {
  const auto& call = *static_cast<const FoldCall*>(data);
  start_fold(ExecutionSpace(), call.block, call.sums, call.count);
}

}  // namespace

void enqueue_fold(cudaStream_t stream, const ExecutionSpace& /*space*/, FoldCall& call) {
  check(cudaLaunchHostFunc(stream, fold_on_host, &call), "cudaLaunchHostFunc");
}

#endif

}  // namespace matrixfsdp::nccl
