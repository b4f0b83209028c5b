#include "apps/train/stop_signal.hpp"

#include <algorithm>
#include <ctime>

#include <pthread.h>

namespace matrixfsdp::train {

StopSignal::StopSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
}

StopSignal::~StopSignal() {
  (void)received();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignal::received() {
  const timespec now{};
  for (int signal = 0; (signal = sigtimedwait(&signals_, nullptr, &now)) > 0;)
    received_ = std::max(received_, signal);
  return received_;
}

}  // namespace matrixfsdp::train
