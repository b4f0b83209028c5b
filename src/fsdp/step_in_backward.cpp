#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "fsdp/implementation.hpp"
#include "fsdp/square_sums.hpp"

// A unit's step needs nothing but its gradient at the owner, so it is taken while the rest of backward computes and
// communicates. What is safe about it: from its last reduce on nobody unshards the unit (closed), what was under way of
// its weights has ended before they change, and the rest of backward uses those of other units only.
namespace matrixfsdp {

/// Before the unit's last reduce is issued.
void ShardedModel::Implementation::close(std::size_t index) {
  Unit& unit = units[index];
  if (!step_unit) {
    throw ContractError(
        fmt::format("reduce of unit {}: expected set_unit_step before a step that is taken in backward", unit.name));
  }
  unit.closed = true;
  if (shares_gradients()) free_gradient_slot(index);
}

/// The unit before it in the same storage is stepped first. All ranks reduce in one order, so it has landed, or is the
/// oldest that is under way.
void ShardedModel::Implementation::free_gradient_slot(std::size_t index) {
  const std::size_t slot = units[index].gradient_slot;
  for (std::size_t other = 0; other < units.size(); ++other) {
    const Unit& before = units[other];
    if (other == index || before.gradient_slot != slot || !before.closed || before.stepped) continue;
    while (unit_is_reducing(other))
      retire_oldest_reduce();
    step_what_has_landed();
    if (before.stepped) continue;
    throw ContractError(
        fmt::format("reduce of unit {}: its gradient lands where unit {} has not been stepped, which is unsharded ({} "
                    "uses); reshard that first",
                    units[index].name, before.name, before.uses));
  }
}

void ShardedModel::Implementation::land(std::size_t index) {
  Unit& unit = units[index];
  unit.square_sums.clear();
  for (const ParameterView& view : trainable_views) {
    if (view.unit == index) append_square_sums(view, unit.square_sums);
  }
  landed.push_back(index);
}

/// In the order in which they have landed; one that is in use waits until it is resharded.
void ShardedModel::Implementation::step_what_has_landed() {
  for (std::size_t i = 0; i < landed.size();) {
    const std::size_t index = landed[i];
    if (units[index].uses > 0) {
      ++i;
      continue;
    }
    landed.erase(landed.begin() + static_cast<std::ptrdiff_t>(i));
    step_landed(index);
  }
}

void ShardedModel::Implementation::step_landed(std::size_t index) {
  Unit& unit = units[index];
  forget_copies(unit);
  poll();  // nothing else does while the step computes, where there is no progress thread
  step_unit(index);
  unit.stepped = true;
}

/// Without waiting, so that a step is taken as soon as it can be.
void ShardedModel::Implementation::retire_what_is_complete() {
  if (!steps_now()) return;
  while (!reducing.empty() && units[reducing.front()].reducing.test())
    retire_oldest_reduce();
  step_what_has_landed();
}

void ShardedModel::Implementation::finish_unit_steps() {
  if (!gradients_ready()) {
    throw ContractError("step in backward: expected every unit to be reduced in every pass of the step first");
  }
  step_what_has_landed();
  if (landed.empty()) return;
  const Unit& waiting = units[landed.front()];
  throw ContractError(fmt::format("step of unit {}: it is unsharded ({} uses), expected it to be resharded",
                                  waiting.name, waiting.uses));
}

std::vector<double> ShardedModel::Implementation::gradient_square_sums() const {
  std::vector<double> sums;
  if (!options.step_in_backward) {
    for (const ParameterView& view : trainable_views)
      append_square_sums(view, sums);
    return sums;
  }
  for (const Unit& unit : units)
    sums.insert(sums.end(), unit.square_sums.begin(), unit.square_sums.end());
  return sums;
}

}  // namespace matrixfsdp
