#include "support/oracle/schedule.hpp"

#include <cmath>

namespace oracle {

double factor(const Schedule& schedule, std::size_t step) {
  const auto at = static_cast<double>(step);
  const auto total = static_cast<double>(schedule.total_steps);
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const double last = schedule.final_factor;
  if (step <= schedule.warmup_steps) return at / warmup;
  if (schedule.kind == ScheduleKind::constant) return 1.0;
  if (schedule.kind == ScheduleKind::cosine) {
    if (at >= total) return last;
    return last + (1.0 - last) * 0.5 * (1.0 + std::cos(std::acos(-1.0) * (at - warmup) / (total - warmup)));
  }
  const double length = schedule.decay_share * total;
  if (length == 0.0 || at <= total - length) return 1.0;
  if (at >= total) return last;
  return 1.0 - (1.0 - last) * (at - (total - length)) / length;
}

}  // namespace oracle
