#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "apps/train/metrics.hpp"
#include "apps/train/options.hpp"

namespace matrixfsdp::train {

/// Live progress on standard error: one line that is redrawn on a terminal (and never wider than it), a plain line
/// every few seconds in a log.
class Progress {
 public:
  Progress(std::int64_t total_steps, ProgressLine line);
  void step(const StepMetrics& metrics);
  /// A line of its own, e.g. a validation.
  void note(const std::string& text);
  /// Leaves the redrawn line.
  void finish();

 private:
  std::int64_t total_;
  bool redrawn_;
  bool open_line_ = false;
  std::int64_t steps_seen_ = 0;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point last_line_;
};

}  // namespace matrixfsdp::train
