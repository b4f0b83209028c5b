#pragma once

#include <memory>

#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp {

namespace mpi {
class Progress;
}

/// While it lives, a thread advances what is issued on a communicator: MPI moves data only inside MPI calls, so that
/// otherwise nothing moves while the rank computes (CASES 46). It tests every 0.1 ms while messages move, and more and
/// more seldom, down to every millisecond, while none do: a thread that tests all the time takes the core from the
/// computation. It sleeps while nothing is under way. Sums of a reduce are made on this thread. Several of one
/// communicator share a thread. What goes over NCCL (comm/nccl.hpp) is not its work: NCCL moves data by itself, and
/// where there are devices there is no such thread. Issuing, testing and waiting stay with the thread that made the
/// communicator.
class ProgressThread {
 public:
  /// MPI provides MPI_THREAD_MULTIPLE, and the tensors are the host's: device kernels are launched by the issuing
  /// thread only. Throws ContractError unless MPI is running.
  static bool available();

  /// Throws ContractError unless available(). The communicator may be moved, and may end before the thread.
  explicit ProgressThread(Communicator& communicator);
  /// Returns when the thread, which waits for nobody, has ended.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  std::shared_ptr<mpi::Progress> progress_;
};

}  // namespace matrixfsdp
