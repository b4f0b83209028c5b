#include <algorithm>
#include <cstring>

#include "support/nccl_double/state.hpp"

/// A communicator's life: NCCL user guide, api/comms and usage/communicators; nccl.h.
namespace matrixfsdp::nccl_double {
namespace {

std::array<char, 16> my_device() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  std::array<char, 16> uuid{};
  std::memcpy(uuid.data(), properties.uuid.bytes, uuid.size());
  return uuid;
}

/// usage/communicators: "Using the same CUDA device multiple times as different ranks of the same NCCL communicator is
/// not supported and may lead to hangs."
bool devices_differ(const ncclComm& comm) {
  for (int a = 0; a < comm.size; ++a) {
    for (int b = 0; b < a; ++b) {
      const auto& members = comm.job->members;
      if (members[static_cast<std::size_t>(a)].device == members[static_cast<std::size_t>(b)].device) return false;
    }
  }
  return true;
}

void start(ncclComm& comm) {
  if (!comm.job->all(comm.size, Membership::joined)) return;
  if (comm.countdown-- > 0) return;
  comm.phase = ncclComm::Phase::ready;
  if (!devices_differ(comm)) comm.error = misuse("two ranks of a communicator on one device");
}

void launch(ncclComm& comm) {
  if (comm.countdown-- > 0) return;
  comm.stream->launching = nullptr;
  comm.stream->work.push_back(group_work(comm, comm.group));
  comm.group.clear();
  comm.countdown = 0;
}

bool known(ncclComm_t comm) {
  return std::any_of(device().communicators.begin(), device().communicators.end(),
                     [&](const auto& each) { return each.get() == comm && each->phase != ncclComm::Phase::gone; });
}

void leave(ncclComm& comm, Membership state) {
  comm.job->members[static_cast<std::size_t>(comm.rank)].state = state;
  comm.phase = ncclComm::Phase::gone;
  if (comm.stream != nullptr && comm.stream->launching == &comm) comm.stream->launching = nullptr;
  comm.group.clear();
  comm.job->close_file();
  comm.job = nullptr;
}

}  // namespace

void go_on(ncclComm& comm) {
  using Phase = ncclComm::Phase;
  if (comm.phase == Phase::gone || comm.error != ncclSuccess) return;
  // api/types, ncclRemoteError: "a remote process exiting prematurely".
  if (comm.job->any_aborted(comm.size)) {
    device().last_error = "a peer has aborted";
    comm.error = ncclRemoteError;
    return;
  }
  if (comm.phase == Phase::starting) start(comm);
  if (!comm.group.empty()) launch(comm);
  // api/comms, ncclCommFinalize: the state "will change to ncclSuccess when the communicator is globally quiescent".
  if (comm.phase == Phase::finalizing && comm.open_groups == 0 && comm.job->all(comm.size, Membership::finalizing))
    comm.phase = Phase::finalized;
}

}  // namespace matrixfsdp::nccl_double

using matrixfsdp::nccl_double::device;
using matrixfsdp::nccl_double::known;
using matrixfsdp::nccl_double::leave;
using matrixfsdp::nccl_double::Membership;
using matrixfsdp::nccl_double::misuse;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote process exited or there was a network error" : "an error of the host double";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return device().last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  return matrixfsdp::nccl_double::make_job(*id) ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  // usage/groups: "calls to ncclCommInitRank() cannot be merged with others".
  if (device().group_depth > 0) return misuse("ncclCommInitRankConfig in a group");
  // nccl.h: "Not initialized config will result in NCCL error."
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr || config->magic != fresh.magic || config->size != fresh.size)
    return misuse("ncclCommInitRankConfig: the configuration is not NCCL_CONFIG_INITIALIZER", ncclInvalidArgument);
  if (config->blocking != 0) return misuse("ncclCommInitRankConfig: only non-blocking communicators are modelled");
  // nccl.h, ncclCommInitRank: "rank must be between 0 and nranks-1 and unique within a communicator clique."
  if (size < 1 || size > matrixfsdp::nccl_double::most_ranks || rank < 0 || rank >= size)
    return misuse("ncclCommInitRankConfig: rank " + std::to_string(rank) + " of " + std::to_string(size),
                  ncclInvalidArgument);
  auto job = matrixfsdp::nccl_double::open_job(id);
  if (!job) return misuse("ncclCommInitRankConfig: no job of this unique id", ncclInvalidArgument);
  auto& member = job->members[static_cast<std::size_t>(rank)];
  if (member.state.load() != Membership::absent)
    return misuse("ncclCommInitRankConfig: rank " + std::to_string(rank) + " is there already", ncclInvalidUsage);
  member.device = matrixfsdp::nccl_double::my_device();
  if (!device().faults.init_never_ends) member.state = Membership::joined;
  device().communicators.push_back(std::make_unique<ncclComm>());
  *comm = device().communicators.back().get();
  (*comm)->rank = rank;
  (*comm)->size = size;
  (*comm)->job = std::move(job);
  (*comm)->countdown = device().draw(4);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!known(comm)) return misuse("ncclCommGetAsyncError: no such communicator", ncclInvalidArgument);
  device().turn();
  *state = comm->state();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!known(comm)) return misuse("ncclCommFinalize: no such communicator", ncclInvalidArgument);
  if (comm->state() == ncclInProgress) return misuse("ncclCommFinalize: the communicator is in progress");
  if (comm->phase != ncclComm::Phase::ready) return misuse("ncclCommFinalize for the second time");
  if (comm->error != ncclSuccess) return comm->error;
  comm->phase = ncclComm::Phase::finalizing;
  comm->job->members[static_cast<std::size_t>(comm->rank)].state = Membership::finalizing;
  return ncclInProgress;
}

/// api/comms: after ncclCommFinalize "users should guarantee that the state of the communicator becomes ncclSuccess
/// before calling ncclCommDestroy"; without ncclCommFinalize it may block, for as long as a peer does not come.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!known(comm)) return misuse("ncclCommDestroy: no such communicator", ncclInvalidArgument);
  const bool quiet = comm->phase == ncclComm::Phase::finalized;
  const std::string why =
      comm->phase == ncclComm::Phase::finalizing ? "before ncclCommFinalize has ended" : "without ncclCommFinalize";
  leave(*comm, quiet ? Membership::finalizing : Membership::aborted);
  return quiet ? ncclSuccess : misuse("ncclCommDestroy " + why);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!known(comm)) return misuse("ncclCommAbort: no such communicator", ncclInvalidArgument);
  leave(*comm, Membership::aborted);
  return ncclSuccess;
}
