#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "fsdp/implementation.hpp"

namespace matrixfsdp {

void ShardedModel::Implementation::begin_step() {
  for (Unit& unit : units)
    unit.closed = unit.stepped = false;
  landed.clear();  // of a step that was given up
  finish_reduces();
  ++step;
  pass = -1;
  shared_gradient_unit = -1;
  for (Unit& unit : units) {
    unit.passes_reduced = 0;
    unit.gradient_begun = false;
  }
}

void ShardedModel::Implementation::begin_pass() {
  if (step == 0) throw ContractError("begin_pass: expected begin_step first");
  if (pass + 1 >= options.passes) {
    throw ContractError(fmt::format("pass {} of a step: expected at most {} (the model was made for that many)",
                                    pass + 2, options.passes));
  }
  for (const Unit& unit : units) {
    if (unit.passes_reduced != pass + 1) {
      throw ContractError(fmt::format("unit {} was reduced {} times in {} passes: expected once per pass", unit.name,
                                      unit.passes_reduced, pass + 1));
    }
  }
  ++pass;
}

/// What travels from it must have gone. Gradients that are copied in travel from elsewhere.
void ShardedModel::Implementation::wait_for_gradient_buffer(const Unit& unit) {
  if (copies()) return;
  for (const std::size_t other : reducing) {
    Request& request = units[other].reducing;
    if (units[other].gradient_buffer.data() == unit.gradient_buffer.data())
      wait(request, times.reduce_under_way, times.reduce_waited);
  }
}

UnitTensors<float>& ShardedModel::Implementation::gradients(std::size_t index) {
  Unit& unit = at(index);
  if (pass < 0) throw ContractError(fmt::format("gradient of unit {}: expected begin_pass first", unit.name));
  if (unit.passes_reduced > pass) {
    throw ContractError(fmt::format("gradient of unit {}: it was already reduced in pass {}", unit.name, pass));
  }
  if (unit.gradient_begun) return unit.gradients;
  const bool shared = !model.units[index].keep && options.accumulation == Accumulation::chunks;
  if (shared && shared_gradient_unit >= 0) {
    throw ContractError(fmt::format("gradient of unit {}: the gradient buffer still holds unit {}; reduce that first",
                                    unit.name, units[static_cast<std::size_t>(shared_gradient_unit)].name));
  }
  if (shared) shared_gradient_unit = static_cast<std::int64_t>(index);
  wait_for_gradient_buffer(unit);
  Kokkos::deep_copy(unit.gradient_buffer, 0.0F);
  unit.gradient_begun = true;
  return unit.gradients;
}

/// Of a replicated plan: this rank's part of the sums, in the gradient that all ranks hold.
TensorView<float> ShardedModel::Implementation::own_chunk(const Unit& unit) const {
  const Interval chunk = unit.reduce.table.intervals[static_cast<std::size_t>(member())][0];
  return slice(unit.gradient_shard, chunk.begin, chunk.size());
}

/// The gradient as it travels: no reduce under way has the same turn.
TensorView<float> ShardedModel::Implementation::gradient_to_send(const Unit& unit, std::size_t turn) const {
  if (!copies()) return unit.gradient_buffer;
  const auto size = static_cast<std::int64_t>(unit.gradient_buffer.size());
  const TensorView<float> travels = slice(travelling[turn], 0, size);
  copy_in(unit.gradient_spans, unit.gradient_buffer, travels);
  return travels;
}

bool ShardedModel::Implementation::unit_is_reducing(std::size_t index) const {
  return std::find(reducing.begin(), reducing.end(), index) != reducing.end();
}

// Formula: G = (((g_0 + g_1) + g_2) + ...) over micro-batch index pass * W + rank, or over the sums of sum_group of
// them. That order knows neither owners nor W, so the bits depend on the global batch alone. This pass adds its W terms
// to the sums of each element, wherever those are kept; after the last pass they are where the segments live.
void ShardedModel::Implementation::reduce(std::size_t index) {
  Unit& unit = at(index);
  gradients(index);  // nothing written: zeros take part, so the set of collectives never depends on gradients
  const bool last = pass + 1 == options.passes;
  const bool accumulate_locally = options.accumulation == Accumulation::unsharded;
  const bool exchange = !accumulate_locally || last;
  while (exchange && !reducing.empty() && (unit_is_reducing(index) || reducing.size() >= shared_sums.size()))
    retire_oldest_reduce();
  ++unit.passes_reduced;
  if (steps_now()) close(index);
  if (exchange) {
    announce("reduce", index, "backward");
    const TensorView<float> whole =
        slice(unit.gradient_shard, 0, static_cast<std::int64_t>(unit.gradient_shard.size()));
    const std::size_t turn = static_cast<std::size_t>(reduces_issued++) % shared_sums.size();
    const Tensor<float>& sums = unit.running_sums.size() > 0 ? unit.running_sums : shared_sums[turn];
    unit.reducing = matrixfsdp::reduce(communicator, unit.reduce, {accumulate_locally ? 0 : pass, last},
                                       gradient_to_send(unit, turn),
                                       slice(sums, 0, running_sum_elements(unit.reduce, communicator.rank())),
                                       plan.replicated ? own_chunk(unit) : whole, {"reduce", unit.name, "backward"});
    reducing.push_back(index);
    if (options.reduces_in_flight == 0) retire_oldest_reduce();
    step_what_has_landed();  // beside what has just been issued
  }
  if (!accumulate_locally) unit.gradient_begun = false;
  if (shared_gradient_unit == static_cast<std::int64_t>(index)) shared_gradient_unit = -1;
  if (gradients_ready()) finish_reduces();
}

// Only where all ranks do the same: what is issued here must be issued in one order.
void ShardedModel::Implementation::retire_oldest_reduce() {
  const std::size_t index = reducing.front();
  Unit& unit = units[index];
  wait(unit.reducing, times.reduce_under_way, times.reduce_waited);
  reducing.pop_front();
  if (unit.closed) land(index);  // it may be of the pass before
  if (!plan.replicated || unit.passes_reduced < options.passes) return;
  unit.reducing = gather(communicator, Purpose::reduce, unit.gradient_chunks, own_chunk(unit),
                         slice(unit.gradient_shard, 0, static_cast<std::int64_t>(unit.gradient_shard.size())),
                         {"reduce", unit.name, "backward"});
  gathering.push_back(index);
}

void ShardedModel::Implementation::finish_reduces() {
  while (!reducing.empty()) {
    retire_oldest_reduce();
    step_what_has_landed();
  }
  for (const std::size_t index : gathering)
    wait(units[index].reducing, times.reduce_under_way, times.reduce_waited);
  gathering.clear();
}

bool ShardedModel::Implementation::gradients_ready() const {
  for (const Unit& unit : units) {
    if (unit.passes_reduced != options.passes) return false;
  }
  return step > 0;
}

}  // namespace matrixfsdp
