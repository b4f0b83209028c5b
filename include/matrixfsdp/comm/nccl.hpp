#pragma once

#include <memory>
#include <string>

#include <matrixfsdp/comm/communicator.hpp>

/// @file
/// Segments by NCCL: after attach, gather and reduce (comm/segments.hpp) of a communicator go over NCCL, on one stream,
/// as float32 or bfloat16, among all ranks or inside groups of them; small messages stay with MPI. Results are
/// the same bits as MPI's. The schedule of an Unshard is not used: NCCL has its own ways. Bytes are counted as MPI's
/// `direct` and `allgatherv` count them.
namespace matrixfsdp {
class SegmentBackend;
}

namespace matrixfsdp::nccl {

/// How owners' segments reach everybody.
enum class GatherBy {
  automatic,  ///< broadcast where the fullest owner would send at least twice what everybody receives, and that is 256
              ///< KiB or more; else send_recv. A model: no device has measured it
  send_recv,  ///< every owner sends its segments to every other rank, all in one group
  broadcast,  ///< one ncclBroadcast for each segment, all in one group; among fewer ranks than all: as send_recv
};

/// NCCL's own limit for one group ("Group Calls" in its documentation).
inline constexpr int most_group_operations = 2048;

/// What attach is told.
struct Options {
  GatherBy gather = GatherBy::automatic;         ///< way of every gather
  int group_operations = most_group_operations;  ///< in one group, 2 to most_group_operations; longer groups are cut
};

/// What attach made. Its destructor detaches, and tells what went wrong on standard error; while an exception unwinds
/// it aborts instead, which waits for nobody. Movable.
class Attachment {
 public:
  /// By attach. No backend: not active, for the reason that `description` tells.
  Attachment(std::shared_ptr<SegmentBackend> backend, std::string description);
  Attachment(Attachment&&) noexcept;  ///< the other is not active any more
  Attachment& operator=(Attachment&&) = delete;
  ~Attachment();

  /// False: gather and reduce stay with MPI, for the reason that description() tells.
  [[nodiscard]] bool active() const;
  /// "segments by NCCL 2.28.9, CUDA 13.0", or "segments stay with MPI: ranks 0 and 1 share device ...", the same on
  /// every rank.
  [[nodiscard]] const std::string& description() const { return description_; }

  /// Collective. Waits for all operations, ends the NCCL communicator on all ranks, and gives gather and reduce back to
  /// MPI. Throws CommunicationError, and aborts, when that takes longer than the communicator's deadline. Nothing where
  /// it is not active.
  void detach();

 private:
  std::shared_ptr<SegmentBackend> backend_;
  std::string description_;
  int exceptions_;
};

/// "NCCL 2.28.9, CUDA 13.0": the libraries that this process runs with, or "NCCL: not built in". Needs no device.
std::string library_description();

/// Collective. Compares the devices of all ranks, and makes one NCCL communicator over them. Not active, with the
/// reason (the same on all ranks), where this build has no NCCL, a rank has no device or tensors that no device can
/// reach, and where two ranks share a device. Every operation that fails from then on, on any rank, and every request
/// that is destroyed before it is complete, aborts the NCCL communicator of its rank: the other ranks meet an error or
/// their deadline, and whatever is issued after it throws. Throws ContractError where `communicator` has an active
/// attachment, or group_operations is out of range; CommunicationError where NCCL fails, or is not ready within the
/// communicator's deadline.
Attachment attach(Communicator& communicator, const Options& options = {});

}  // namespace matrixfsdp::nccl
