#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "io/checkpoint/agree.hpp"

namespace matrixfsdp::io {

/// A body on a thread of its own, which makes no MPI call. Signals are the business of the other threads: all but those
/// of faults are blocked in it, so that a write beyond RLIMIT_FSIZE fails instead of ending the process.
class Job {
 public:
  /// `body` owns all that it touches: a disk that hangs keeps the thread, and the job may be given up then. It looks at
  /// `cancelled` now and then, and throws Cancelled.
  using Body = std::function<void(const std::atomic<bool>& cancelled)>;
  struct Cancelled {};

  explicit Job(Body body);
  /// Cancels, waits for a few seconds, and lets go of a thread that has not ended then.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void cancel();
  [[nodiscard]] bool done() const;
  /// Returns done().
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point end) const;
  /// Why it failed, once it is done; nothing for success, and where it was cancelled.
  [[nodiscard]] std::optional<Failure> failure() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace matrixfsdp::io
