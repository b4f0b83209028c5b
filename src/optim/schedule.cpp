#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/schedule.hpp>

namespace matrixfsdp {
namespace {

constexpr std::array<std::pair<ScheduleKind, std::string_view>, 3> names{
    {{ScheduleKind::constant, "constant"},
     {ScheduleKind::cosine, "cosine"},
     {ScheduleKind::warmup_stable_decay, "warmup-stable-decay"}}};

double cosine_factor(const Schedule& schedule, std::int64_t step) {
  const std::int64_t length = schedule.total_steps - schedule.warmup_steps;
  if (step >= schedule.total_steps || length <= 0) return schedule.final_factor;
  const double share = static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(length);
  return schedule.final_factor + (1.0 - schedule.final_factor) * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
}

double decay_factor(const Schedule& schedule, std::int64_t step) {
  if (schedule.decay_share <= 0.0) return 1.0;
  if (step >= schedule.total_steps) return schedule.final_factor;
  const double length = schedule.decay_share * static_cast<double>(schedule.total_steps);
  const double left = std::min(1.0, static_cast<double>(schedule.total_steps - step) / length);
  return schedule.final_factor + (1.0 - schedule.final_factor) * left;
}

}  // namespace

ScheduleKind parse_schedule(std::string_view name) {
  for (const auto& [kind, text] : names) {
    if (text == name) return kind;
  }
  throw InputError(
      fmt::format("learning-rate schedule \"{}\": expected constant, cosine or warmup-stable-decay", name));
}

std::string_view name_of(ScheduleKind kind) {
  for (const auto& [value, text] : names) {
    if (value == kind) return text;
  }
  throw ContractError(fmt::format("learning-rate schedule number {} does not exist", static_cast<int>(kind)));
}

void validate(const Schedule& schedule) {
  const auto refuse = [](std::string_view field, double value, std::string_view expected) {
    throw InputError(fmt::format("learning-rate schedule: {} {}, expected {}", field, value, expected));
  };
  // Written so that NaN is refused.
  if (schedule.total_steps < 1) refuse("total steps", static_cast<double>(schedule.total_steps), "at least 1");
  if (schedule.warmup_steps < 0) refuse("warm-up steps", static_cast<double>(schedule.warmup_steps), "at least 0");
  if (!(schedule.final_factor >= 0.0 && schedule.final_factor <= 1.0)) {
    refuse("final factor", schedule.final_factor, "0 to 1");
  }
  if (!(schedule.decay_share >= 0.0 && schedule.decay_share <= 1.0)) {
    refuse("decay share", schedule.decay_share, "0 to 1");
  }
}

double Schedule::factor(std::int64_t step) const {
  if (step < 1) throw ContractError(fmt::format("learning-rate schedule: step {}, expected at least 1", step));
  if (step < warmup_steps) return static_cast<double>(step) / static_cast<double>(warmup_steps);
  if (step == warmup_steps) return 1.0;
  switch (kind) {
    case ScheduleKind::constant:
      return 1.0;
    case ScheduleKind::cosine:
      return cosine_factor(*this, step);
    case ScheduleKind::warmup_stable_decay:
      return decay_factor(*this, step);
  }
  throw ContractError(fmt::format("learning-rate schedule number {} does not exist", static_cast<int>(kind)));
}

}  // namespace matrixfsdp
