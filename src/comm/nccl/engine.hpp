#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nccl.h>

#include <matrixfsdp/comm/nccl.hpp>

#include "comm/mpi/channel.hpp"
#include "comm/nccl/groups.hpp"
#include "comm/nccl/kernels.hpp"
#include "comm/nccl/stream.hpp"

namespace matrixfsdp::nccl {

class Operation;

/// One NCCL communicator and one stream. Operations are enqueued one after the other, each whole, so that all ranks
/// have the same order on their streams. NCCL launches a group in the background: until it has done so nothing may be
/// enqueued behind it, so what is left waits here, and goes on whenever a request is tested.
class Engine {
 public:
  /// `comm` is ready, and belongs to the engine from now on.
  Engine(std::shared_ptr<mpi::Channel> channel, ncclComm_t comm);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  /// Puts `operation` last, and enqueues as much as NCCL takes.
  Request start(const std::shared_ptr<Operation>& operation, const OperationLabel& label);

  /// Enqueues as much as NCCL takes. Throws CommunicationError, and aborts, where NCCL or CUDA has failed.
  void pump();
  /// Throws CommunicationError where it was aborted.
  void require_alive() const;
  /// Aborts on this rank, once: operations on the device end, the stream runs empty, and `why` is what everything says
  /// from then on.
  void fail(std::string_view why) noexcept;
  /// After an abort: keeps `operation` where the device may still read or write its staging.
  void bury(std::shared_ptr<Operation> operation) noexcept;

  /// All operations, then the communicator, within the deadline.
  void end();
  [[nodiscard]] bool alive() const { return why_.empty(); }
  [[nodiscard]] bool ended() const { return ended_; }

  void run_group(const Group& group, Purpose purpose);
  /// Of segments of `table`, in this rank's shard and in the buffer.
  struct Segment {
    int owner;
    const void* send;
    void* receive;
    std::int64_t elements;
    DType type;
  };
  void run_broadcasts(const std::vector<Segment>& segments, Purpose purpose);
  void copy(const void* from, void* to, std::int64_t bytes) const;
  void run_kernel(Kernel& kernel);

  [[nodiscard]] const std::shared_ptr<mpi::Channel>& channel() const { return channel_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] std::uint64_t enqueued() const { return enqueued_; }

 private:
  /// NCCL has launched what it was given. Throws where it has failed.
  [[nodiscard]] bool settled() const;
  template <class Condition>
  void wait_until(const Condition& condition, const char* what);
  void close_group(std::size_t operations);
  void count(Purpose purpose, std::int64_t bytes);

  std::shared_ptr<mpi::Channel> channel_;
  ncclComm_t comm_;
  Stream stream_;
  std::optional<ExecutionSpace> space_;           // until the end: Kokkos may end before the communicator
  std::deque<std::shared_ptr<Operation>> queue_;  // not yet enqueued to the end, in order
  std::uint64_t enqueued_ = 0;                    // steps
  std::string why_;                               // it was aborted
  bool ended_ = false;
};

}  // namespace matrixfsdp::nccl
