#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include <sched.h>

namespace matrixfsdp {

/// What a waiting rank does between two tests: nothing at first, then it yields, then it sleeps, each time for a quarter
/// longer, up to 1 ms: so it comes late by a fifth of what it waited for. With more ranks than cores the core must go to
/// the rank that computes, and yielding alone does not give it away.
class Backoff {
 public:
  /// Messages are moving: wait eagerly again.
  void restart() {
    count_ = 0;
    sleep_ = first_sleep;
  }

  void pause() {
    if (count_ < spins + yields) {
      if (++count_ > spins) sched_yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(5 * sleep_ / 4, last_sleep);
  }

 private:
  static constexpr int spins = 16;
  static constexpr int yields = 64;
  static constexpr std::chrono::microseconds first_sleep{10};
  static constexpr std::chrono::microseconds last_sleep{1000};

  int count_ = 0;
  std::chrono::microseconds sleep_ = first_sleep;
};

}  // namespace matrixfsdp
