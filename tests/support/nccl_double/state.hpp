#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "support/nccl_double/control.hpp"
#include "support/nccl_double/job.hpp"

/// Work on a stream: tried again and again until it says that it is done, after `delay` turns of its stream.
struct CUevent_st {
  std::shared_ptr<bool> reached;  ///< null: never recorded
  bool alive = true;
};

namespace matrixfsdp::nccl_double {

struct Work {
  std::uint64_t delay;
  std::function<bool()> run;
};

/// One call of ncclSend, ncclRecv or ncclBroadcast.
struct Call {
  enum Kind : std::uint32_t { send, receive, broadcast } kind;
  const void* from;
  void* to;
  std::size_t elements;
  ncclDataType_t type;
  int peer;  ///< or root
  ncclComm_t comm;
  cudaStream_t stream;
};

}  // namespace matrixfsdp::nccl_double

struct CUstream_st {
  std::deque<matrixfsdp::nccl_double::Work> work;
  const ncclComm* launching = nullptr;  ///< whose group will come next, once NCCL has launched it
  bool alive = true;
};

struct ncclComm {
  enum class Phase { starting, ready, finalizing, finalized, gone } phase = Phase::starting;
  int rank = 0;
  int size = 0;
  std::shared_ptr<matrixfsdp::nccl_double::Job> job;
  ncclResult_t error = ncclSuccess;
  std::uint64_t countdown = 0;                       ///< turns until it has started, or has launched its group
  std::vector<matrixfsdp::nccl_double::Call> group;  ///< being launched
  cudaStream_t stream = nullptr;                     ///< of all its operations, from the first on
  int open_groups = 0;                               ///< on the stream
  std::uint64_t collectives = 0;

  [[nodiscard]] ncclResult_t state() const {
    if (error != ncclSuccess) return error;
    const bool busy = phase == Phase::starting || phase == Phase::finalizing || !group.empty();
    return busy ? ncclInProgress : ncclSuccess;
  }
};

namespace matrixfsdp::nccl_double {

/// The one device of a process, and all that was made there; handles stay known after they are destroyed.
struct Device {
  std::mt19937_64 chance;
  std::vector<std::unique_ptr<CUstream_st>> streams;  ///< the first is the default stream
  std::vector<std::unique_ptr<CUevent_st>> events;
  std::vector<std::unique_ptr<ncclComm>> communicators;
  int group_depth = 0;
  std::vector<Call> group;
  bool in_host_function = false;
  Faults faults;
  Calls calls;
  std::vector<std::string> misuses;
  std::string last_error;

  Device();
  /// A number below `limit`.
  std::uint64_t draw(std::uint64_t limit) { return chance() % limit; }
  /// Streams, and what NCCL does in the background, go on a little.
  void turn();
};
Device& device();

/// Notes what was done against the rules, and returns `code`.
ncclResult_t misuse(const std::string& what, ncclResult_t code = ncclInvalidUsage);
cudaError_t misuse(const std::string& what, cudaError_t code);

/// A communicator's background: start, launch, end.
void go_on(ncclComm& comm);

/// The work of a launched group.
Work group_work(ncclComm& comm, const std::vector<Call>& calls);

void enqueue(cudaStream_t stream, std::function<bool()> run);

}  // namespace matrixfsdp::nccl_double
