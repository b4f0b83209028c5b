#include "comm/nccl/stream.hpp"

#include "comm/nccl/check.hpp"

namespace matrixfsdp::nccl {

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

bool Stream::idle() const {
  const cudaError_t code = cudaStreamQuery(stream_);
  if (code == cudaErrorNotReady) return false;
  check(code, "cudaStreamQuery");
  return true;
}

Event::Event() {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

Event::~Event() {
  cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

void Event::hold_back(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

bool Event::reached() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  check(code, "cudaEventQuery");
  return true;
}

}  // namespace matrixfsdp::nccl
