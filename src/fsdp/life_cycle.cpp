#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/wire.hpp>

#include "fsdp/implementation.hpp"

namespace matrixfsdp {

const char* name_of(Phase phase) {
  return phase == Phase::forward ? "forward" : "backward";
}

void ShardedModel::Implementation::unshard(std::size_t index, Phase phase) {
  Unit& unit = at(index);
  if (unit.closed) {
    throw ContractError(fmt::format(
        "unshard of unit {} ({}): its gradient has been reduced, so that it is stepped in backward; expected "
        "weights_changed first",
        unit.name, name_of(phase)));
  }
  if (unit.state == UnitState::sharded) {
    if (unit.current) {
      unit.state = UnitState::unsharded;
    } else {
      start_unshard(index, phase);
    }
  }
  retire_what_is_complete();
  if (unit.state == UnitState::unsharding) finish_unshard(index);
  ++unit.uses;
  if (phase == Phase::forward) hold(unit);
  prefetch_after(index, phase);
}

void ShardedModel::Implementation::reshard(std::size_t index) {
  Unit& unit = at(index);
  if (unit.uses == 0) throw ContractError(fmt::format("reshard of unit {}: expected an unsharded unit", unit.name));
  if (--unit.uses == 0) unit.state = UnitState::sharded;
  step_what_has_landed();
}

/// For backward, which unshards from the parts that neighbouring ranks hold.
void ShardedModel::Implementation::hold(Unit& unit) const {
  if (unit.policy.reshard_to <= 1 || unit.held_current) return;
  const auto& table = unit.unshard_held.table;
  const auto part = table.intervals[static_cast<std::size_t>(communicator.rank() - unit.unshard_held.first_rank)][0];
  Kokkos::deep_copy(slice(unit.held, 0, part.size()), slice(unit.storage, part.begin, part.size()));
  unit.held_current = true;
}

bool ShardedModel::Implementation::can_take_slot(const Unit& unit) const {
  if (copies()) return landing_occupant[static_cast<std::size_t>(unit.landing_slot)] < 0;
  if (unit.slot < 0) return true;
  const std::int64_t occupant = slot_occupant[static_cast<std::size_t>(unit.slot)];
  return occupant < 0 || units[static_cast<std::size_t>(occupant)].state == UnitState::sharded;
}

void ShardedModel::Implementation::take_slot(std::size_t index) {
  Unit& unit = at(index);
  if (unit.slot < 0) return;
  std::int64_t& occupant = slot_occupant[static_cast<std::size_t>(unit.slot)];
  if (occupant >= 0 && occupant != static_cast<std::int64_t>(index)) {
    Unit& other = units[static_cast<std::size_t>(occupant)];
    if (other.uses > 0) {
      throw ContractError(
          fmt::format("unshard of unit {}: its storage is still in use by unit {} ({} uses); reshard "
                      "that first, keep one of them, or raise prefetch from {}",
                      unit.name, other.name, other.uses, options.prefetch));
    }
    // A prefetched unit that nobody asked for: its transfer must end before its storage is given away. Row shards
    // arrive elsewhere.
    if (other.state == UnitState::unsharding && !copies()) finish_unshard(static_cast<std::size_t>(occupant));
    if (other.state != UnitState::unsharding) other.state = UnitState::sharded;
    other.current = false;
  }
  occupant = static_cast<std::int64_t>(index);
}

/// What arrives there and nobody has asked for is given up.
void ShardedModel::Implementation::take_landing(std::size_t index) {
  std::int64_t& occupant = landing_occupant[static_cast<std::size_t>(units[index].landing_slot)];
  if (occupant >= 0 && occupant != static_cast<std::int64_t>(index)) {
    Unit& other = units[static_cast<std::size_t>(occupant)];
    wait(other.unsharding, times.unshard_under_way, times.unshard_waited);
    other.state = UnitState::sharded;
  }
  occupant = static_cast<std::int64_t>(index);
}

void ShardedModel::Implementation::start_unshard(std::size_t index, Phase phase) {
  Unit& unit = at(index);
  if (copies())
    take_landing(index);
  else
    take_slot(index);
  const TensorView<float> shard = slice(unit.weight_shard, 0, static_cast<std::int64_t>(unit.weight_shard.size()));
  if (whole_here()) {
    round_through_words(shard, unit.storage);
  } else {
    announce("unshard", index, name_of(phase));
    const bool held = phase == Phase::backward && unit.held_current;
    unit.unsharding = gather(communicator, Purpose::unshard, held ? unit.unshard_held : unit.unshard,
                             held ? slice(unit.held, 0, static_cast<std::int64_t>(unit.held.size())) : shard,
                             copies() ? unit.landing : unit.storage, {"unshard", unit.name, name_of(phase)});
  }
  unit.state = UnitState::unsharding;
}

void ShardedModel::Implementation::finish_unshard(std::size_t index) {
  Unit& unit = at(index);
  wait(unit.unsharding, times.unshard_under_way, times.unshard_waited);
  if (copies()) {
    take_slot(index);
    copy_out(unit.weight_spans, unit.landing, unit.storage);
    landing_occupant[static_cast<std::size_t>(unit.landing_slot)] = -1;
  }
  unit.state = UnitState::unsharded;
  unit.current = true;
}

void ShardedModel::Implementation::wait(Request& request, double& under_way, double& waited) {
  const auto start = std::chrono::steady_clock::now();
  request.wait();
  waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  under_way += request.seconds();
  request = Request();  // counted
}

void ShardedModel::Implementation::prefetch_after(std::size_t index, Phase phase) {
  if (whole_here()) return;
  const auto prefetch = [this, phase](std::size_t next) {
    const Unit& unit = units[next];
    if (unit.state == UnitState::sharded && !unit.current && !unit.closed && can_take_slot(unit))
      start_unshard(next, phase);
  };
  if (const auto& chosen = units[index].prefetch[static_cast<std::size_t>(phase)]) {
    for (const std::size_t next : *chosen)
      prefetch(next);
    return;
  }
  std::int64_t next = static_cast<std::int64_t>(index);
  for (std::int64_t ahead = 0; ahead < options.prefetch; ++ahead) {
    next += phase == Phase::forward ? 1 : -1;
    if (next < 0 || next >= static_cast<std::int64_t>(units.size())) return;
    prefetch(static_cast<std::size_t>(next));
  }
}

void ShardedModel::Implementation::set_prefetch(std::size_t index, Phase phase, std::vector<std::size_t> next) {
  Unit& unit = at(index);
  for (const std::size_t other : next)
    static_cast<void>(at(other));
  unit.prefetch[static_cast<std::size_t>(phase)] = std::move(next);
}

/// The shard has other weights than they have. A transfer reads it until it ends.
void ShardedModel::Implementation::forget_copies(Unit& unit) {
  if (unit.state == UnitState::unsharding) wait(unit.unsharding, times.unshard_under_way, times.unshard_waited);
  unit.state = UnitState::sharded;
  unit.current = is_resident(unit);
  unit.held_current = false;
}

void ShardedModel::Implementation::weights_changed() {
  for (Unit& unit : units) {
    if (unit.uses > 0) {
      throw ContractError(
          fmt::format("weights changed while unit {} is unsharded ({} uses): expected every unit to be "
                      "resharded before the optimizer step",
                      unit.name, unit.uses));
    }
    forget_copies(unit);
    unit.closed = false;
  }
  landing_occupant.assign(landings.size(), -1);
  if (options.resident_weights && !whole_here()) send_new_weights();
}

void ShardedModel::Implementation::send_new_weights() {
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    if (plan.units[u].gradients.size == 0) continue;  // all of it is frozen
    announce("new weights", u, "step");
    unit.unsharding = gather_in_place(communicator, Purpose::optimizer, unit.unshard, unit.storage,
                                      {"new weights", unit.name, "step"});
    unit.state = UnitState::unsharding;
    unit.current = false;
  }
}

void ShardedModel::Implementation::complete() {
  for (Unit& unit : units)
    wait(unit.unsharding, times.unshard_under_way, times.unshard_waited);
  finish_reduces();
}

ShardedModel::Implementation::~Implementation() {
  bool complete = true;
  for (Unit& unit : units) {
    for (Request* const request : {&unit.unsharding, &unit.reducing}) {
      try {
        if (std::uncaught_exceptions() > exceptions_at_start)
          complete = complete && request->complete();
        else
          request->wait();
      } catch (const Error&) {
        complete = false;
      }
    }
  }
  if (complete) return;
  // Never freed: a message may still arrive there. Without memory for that, ending the program is the safe way.
  auto* storage = new std::vector<Tensor<float>>(slots);  // NOLINT(bugprone-unhandled-exception-at-new)
  for (const auto* more : {&kept_storage, &landings, &gradient_storage, &gradient_shards, &travelling, &shared_sums})
    storage->insert(storage->end(), more->begin(), more->end());
  for (const Unit& unit : units) {
    for (const auto* more : {&unit.weight_shard, &unit.held, &unit.running_sums})
      storage->push_back(*more);
  }
}

void ShardedModel::Implementation::poll() {
  for (Unit& unit : units) {
    if (unit.state == UnitState::unsharding) unit.unsharding.test();
    unit.reducing.test();
  }
}

}  // namespace matrixfsdp
