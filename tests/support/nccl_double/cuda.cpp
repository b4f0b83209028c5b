#include <algorithm>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "support/nccl_double/state.hpp"

/// The CUDA runtime: CUDA Runtime API, "Stream Management", "Event Management", "Execution Control", "Memory
/// Management" and "Unified Addressing" (docs.nvidia.com/cuda/cuda-runtime-api).
namespace {

using matrixfsdp::nccl_double::device;
using matrixfsdp::nccl_double::enqueue;
using matrixfsdp::nccl_double::misuse;

/// Execution Control, cudaLaunchHostFunc: "The host function must not make any CUDA API calls."
cudaError_t allowed(const char* call) {
  if (!device().in_host_function) return cudaSuccess;
  return misuse(std::string(call) + " in a host function", cudaErrorNotPermitted);
}

CUstream_st* known(cudaStream_t stream) {
  if (stream == nullptr) return device().streams.front().get();
  for (const auto& each : device().streams) {
    if (each.get() == stream && each->alive) return stream;
  }
  return nullptr;
}

bool known(cudaEvent_t event) {
  return std::any_of(device().events.begin(), device().events.end(),
                     [&](const auto& each) { return each.get() == event && each->alive; });
}

/// Where work may be put. nccl.h, ncclGroupEnd: "Operations on the CUDA stream depending on the NCCL operations need to
/// be called after ncclGroupEnd"; on a non-blocking communicator that is when it is no more in progress (NCCL user
/// guide, api/comms, ncclCommGetAsyncError): what is enqueued before would run before the group.
cudaError_t open_for(CUstream_st* stream, const char* call) {
  if (const cudaError_t code = allowed(call); code != cudaSuccess) return code;
  if (stream == nullptr) return misuse(std::string(call) + ": no such stream", cudaErrorInvalidResourceHandle);
  if (stream->launching != nullptr)
    return misuse(std::string(call) + ": the group before it is still in progress", cudaErrorInvalidValue);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return device().faults.no_device ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*index*/) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "host double");
  const int id = device().faults.one_device ? 7 : getpid();
  std::memcpy(properties->uuid.bytes, &id, sizeof(id));
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = device().faults.unreachable_memory ? cudaMemoryTypeUnregistered : cudaMemoryTypeManaged;
  attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "an error of the host double";
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  if (const cudaError_t code = allowed("cudaStreamCreateWithFlags"); code != cudaSuccess) return code;
  if (flags != cudaStreamNonBlocking)
    return misuse("cudaStreamCreateWithFlags: only cudaStreamNonBlocking is modelled", cudaErrorInvalidValue);
  device().streams.push_back(std::make_unique<CUstream_st>());
  *stream = device().streams.back().get();
  return cudaSuccess;
}

/// "In case the device is still doing work in the stream when cudaStreamDestroy() is called, the function will return
/// immediately": the work goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr || known(stream) == nullptr)
    return misuse("cudaStreamDestroy: no such stream", cudaErrorInvalidResourceHandle);
  stream->alive = false;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (known(stream) == nullptr) return misuse("cudaStreamQuery: no such stream", cudaErrorInvalidResourceHandle);
  device().turn();
  return known(stream)->work.empty() ? cudaSuccess : cudaErrorNotReady;
}

/// "Makes all future work submitted to stream wait for all work captured in event", as it was last recorded.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  CUstream_st* target = known(stream);
  if (const cudaError_t code = open_for(target, "cudaStreamWaitEvent"); code != cudaSuccess) return code;
  if (!known(event)) return misuse("cudaStreamWaitEvent: no such event", cudaErrorInvalidResourceHandle);
  if (event->reached) enqueue(target, [reached = event->reached] { return *reached; });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int /*flags*/) {
  if (const cudaError_t code = allowed("cudaEventCreateWithFlags"); code != cudaSuccess) return code;
  device().events.push_back(std::make_unique<CUevent_st>());
  *event = device().events.back().get();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!known(event)) return misuse("cudaEventDestroy: no such event", cudaErrorInvalidResourceHandle);
  event->alive = false;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CUstream_st* target = known(stream);
  if (const cudaError_t code = open_for(target, "cudaEventRecord"); code != cudaSuccess) return code;
  if (!known(event)) return misuse("cudaEventRecord: no such event", cudaErrorInvalidResourceHandle);
  event->reached = std::make_shared<bool>(false);
  enqueue(target, [reached = event->reached] { return *reached = true; });
  return cudaSuccess;
}

/// "Before the first call to cudaEventRecord(), an event represents an empty set of work": complete.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!known(event)) return misuse("cudaEventQuery: no such event", cudaErrorInvalidResourceHandle);
  device().turn();
  return event->reached && !*event->reached ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  CUstream_st* target = known(stream);
  if (const cudaError_t code = open_for(target, "cudaLaunchHostFunc"); code != cudaSuccess) return code;
  enqueue(target, [function, data] {
    device().in_host_function = true;
    if (!device().faults.moves_no_data) function(data);
    device().in_host_function = false;
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  CUstream_st* target = known(stream);
  if (const cudaError_t code = open_for(target, "cudaMemcpyAsync"); code != cudaSuccess) return code;
  enqueue(target, [to, from, bytes] {
    if (!device().faults.moves_no_data) std::memcpy(to, from, bytes);
    return true;
  });
  return cudaSuccess;
}
