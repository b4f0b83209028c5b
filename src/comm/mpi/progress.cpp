#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <matrixfsdp/comm/progress.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "comm/mpi/check.hpp"
#include "comm/mpi/pending.hpp"

namespace matrixfsdp {
namespace mpi {

class Progress {
 public:
  explicit Progress(std::shared_ptr<Channel> channel) : channel_(std::move(channel)), thread_([this] { run(); }) {}
  ~Progress() {
    {
      const std::lock_guard lock(channel_->mutex);
      ended_ = true;
    }
    channel_->issued.notify_one();
    thread_.join();
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  static constexpr std::chrono::microseconds shortest{100};
  static constexpr std::chrono::microseconds longest{1000};

  void run() {
    std::unique_lock lock(channel_->mutex);
    auto pause = shortest;
    while (!ended_) {
      if (channel_->background.empty()) {
        channel_->issued.wait(lock, [this] { return ended_ || !channel_->background.empty(); });
        pause = shortest;
      }
      pause = advance_all() ? shortest : std::min(2 * pause, longest);
      channel_->issued.wait_for(lock, pause, [this] { return ended_; });
    }
  }

  /// Something has moved.
  bool advance_all() {
    bool moved = false;
    for (std::size_t i = 0; i < channel_->background.size();) {
      Pending* const operation = channel_->background[i];
      moved = operation->advance_in_background() || moved;
      // An operation that has ended is not in the list any more.
      if (i < channel_->background.size() && channel_->background[i] == operation) ++i;
    }
    return moved;
  }

  std::shared_ptr<Channel> channel_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace mpi

bool ProgressThread::available() {
  if (!mpi::running()) throw ContractError("progress thread: MPI is not running: expected MPI_Init_thread before");
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Query_thread(&provided), "MPI_Query_thread");
  return provided == MPI_THREAD_MULTIPLE && Kokkos::SpaceAccessibility<ExecutionSpace, Kokkos::HostSpace>::accessible;
}

ProgressThread::ProgressThread(Communicator& communicator) {
  if (!available()) {
    throw ContractError(
        "progress thread: expected MPI_THREAD_MULTIPLE and tensors in host memory (ProgressThread::available)");
  }
  const std::shared_ptr<mpi::Channel>& channel = communicator.implementation().channel;
  progress_ = channel->progress.lock();
  if (progress_) return;
  progress_ = std::make_shared<mpi::Progress>(channel);
  channel->progress = progress_;
}

ProgressThread::~ProgressThread() = default;

}  // namespace matrixfsdp
