#include <algorithm>

#include "support/nccl_double/state.hpp"

/// Groups and operations: NCCL user guide (docs.nvidia.com/deeplearning/nccl/user-guide/docs), api/group, api/p2p,
/// api/colls, usage/groups, usage/p2p.
namespace {

using matrixfsdp::nccl_double::Call;
using matrixfsdp::nccl_double::device;
using matrixfsdp::nccl_double::go_on;
using matrixfsdp::nccl_double::misuse;

/// api/group of NCCL 2.9 to 2.14: "There is a maximum of 2048 NCCL operations that can be inserted between the
/// ncclGroupStart and ncclGroupEnd calls. If this limit is exceeded, [...] the NCCL operation will return a failure
/// code."
constexpr std::size_t most_operations = 2048;

bool alive(ncclComm_t comm) {
  return std::any_of(device().communicators.begin(), device().communicators.end(),
                     [&](const auto& each) { return each.get() == comm && each->phase != ncclComm::Phase::gone; });
}

/// api/comms, ncclCommInitRankConfig and ncclCommGetAsyncError: on a communicator that is in progress nothing is called
/// but ncclCommGetAsyncError and ncclCommAbort. ncclCommFinalize: nothing is issued after it.
ncclResult_t require_ready(ncclComm_t comm, const char* call) {
  if (!alive(comm)) return misuse(std::string(call) + ": no such communicator", ncclInvalidArgument);
  if (comm->state() == ncclInProgress) return misuse(std::string(call) + ": the communicator is in progress");
  if (comm->phase == ncclComm::Phase::finalized) return misuse(std::string(call) + " after ncclCommFinalize");
  return comm->error;
}

ncclResult_t add(const Call& call, const char* name) {
  if (const ncclResult_t code = require_ready(call.comm, name); code != ncclSuccess) return code;
  // nccl.h: ranks are between 0 and nranks - 1. api/types: ncclInvalidArgument.
  if (call.peer < 0 || call.peer >= call.comm->size)
    return misuse(std::string(name) + ": rank " + std::to_string(call.peer) + " of " + std::to_string(call.comm->size),
                  ncclInvalidArgument);
  if (call.elements > 0 && (call.from == nullptr || call.to == nullptr))
    return misuse(std::string(name) + ": a null pointer", ncclInvalidArgument);
  if (call.comm->stream != nullptr && call.comm->stream != call.stream)
    return misuse(std::string(name) + ": one stream for each communicator is modelled");
  if (device().group.size() == most_operations)
    return misuse(std::string(name) + ": more than " + std::to_string(most_operations) + " operations in a group");
  call.comm->stream = call.stream;
  device().calls.most_elements = std::max(device().calls.most_elements, call.elements);
  device().group.push_back(call);
  return ncclSuccess;
}

/// usage/groups: nothing is started before the outermost ncclGroupEnd. Non-blocking communicators launch in the
/// background.
ncclResult_t launch() {
  std::vector<Call> calls;
  calls.swap(device().group);
  device().calls.longest_group = std::max(device().calls.longest_group, calls.size());
  if (calls.empty()) return ncclSuccess;
  ncclComm& comm = *calls.front().comm;
  for (const Call& call : calls) {
    if (call.comm != &comm) return misuse("ncclGroupEnd: one communicator in a group is modelled");
  }
  comm.countdown = device().draw(4);
  comm.group = std::move(calls);
  comm.stream->launching = &comm;
  if (comm.countdown == 0) go_on(comm);
  return comm.state();
}

/// An operation outside of a group is a group of its own.
ncclResult_t issue(const Call& call, const char* name) {
  if (const ncclResult_t code = add(call, name); code != ncclSuccess) return code;
  return device().group_depth > 0 ? ncclSuccess : launch();
}

}  // namespace

ncclResult_t ncclGroupStart() {
  ++device().group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (device().group_depth == 0) return misuse("ncclGroupEnd without ncclGroupStart");
  if (--device().group_depth > 0) return ncclSuccess;
  return launch();
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  ++device().calls.sends;
  return issue({Call::send, data, const_cast<void*>(data), count, type, peer, comm, stream}, "ncclSend");
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  ++device().calls.receives;
  return issue({Call::receive, data, data, count, type, peer, comm, stream}, "ncclRecv");
}

/// api/colls, ncclBroadcast: sendbuff is only used on rank root.
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  ++device().calls.broadcasts;
  return issue({Call::broadcast, from, to, count, type, root, comm, stream}, "ncclBroadcast");
}
