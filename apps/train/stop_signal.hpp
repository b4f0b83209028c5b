#pragma once

#include <csignal>

namespace matrixfsdp::train {

/// SIGTERM and SIGUSR1 as questions. They are blocked in this thread and in all that it starts from now on, so made
/// before any other thread, it leaves no handler to interrupt anything; they stay pending until somebody asks. A second
/// one changes nothing.
class StopSignal {
 public:
  StopSignal();
  /// What is still pending is forgotten.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that has come since the start, or 0.
  [[nodiscard]] int received();

 private:
  sigset_t signals_{};
  sigset_t before_{};
  int received_ = 0;
};

}  // namespace matrixfsdp::train
