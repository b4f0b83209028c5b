#pragma once

#include <cstddef>

namespace oracle {

enum class ScheduleKind { constant, cosine, warmup_stable_decay };

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::size_t total_steps = 1;
  std::size_t warmup_steps = 0;
  double final_factor = 0.1;
  double decay_share = 0.2;
};

/// Factor on the learning rates at `step`, which counts from 1.
double factor(const Schedule& schedule, std::size_t step);

}  // namespace oracle
