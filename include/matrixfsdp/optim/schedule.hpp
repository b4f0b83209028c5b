#pragma once

#include <cstdint>
#include <string_view>

namespace matrixfsdp {

/// Shapes of a learning-rate schedule.
enum class ScheduleKind {
  constant,             ///< the base learning rate
  cosine,               ///< half a wave, from 1 down to the final factor
  warmup_stable_decay,  ///< constant, then a straight line down to the final factor
};

/// "constant", "cosine", "warmup-stable-decay". Throws InputError for any other name.
ScheduleKind parse_schedule(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(ScheduleKind kind);

/// Factor on every base learning rate (each optimizer keeps its own base). Linear warm-up (step / warmup_steps), then
///   constant             1
///   cosine               f + (1 - f) (1 + cos(pi p)) / 2, f = final_factor, p = (step - warmup) / (total - warmup)
///   warmup_stable_decay  1, then linear to f over the last decay_share of all steps; a share of 0 never decays
/// Step warmup_steps has the factor 1, step total_steps (and any later one) has f, unless it belongs to the warm-up.
struct Schedule {
  /// What follows the warm-up.
  ScheduleKind kind = ScheduleKind::constant;
  /// Steps of the whole run, warm-up included.
  std::int64_t total_steps = 1;
  /// First steps, in which the factor rises from 0.
  std::int64_t warmup_steps = 0;
  /// f: the factor at the end; of cosine and warmup_stable_decay.
  double final_factor = 0.1;
  /// Of warmup_stable_decay: 0.2 is the last fifth of all steps.
  double decay_share = 0.2;

  /// `step` counts from 1. Throws ContractError for step < 1. The fields must be valid (see validate), or the factor
  /// may be anything.
  [[nodiscard]] double factor(std::int64_t step) const;
};

/// Throws InputError for total_steps < 1, warmup_steps < 0, final_factor or decay_share outside [0, 1].
void validate(const Schedule& schedule);

}  // namespace matrixfsdp
