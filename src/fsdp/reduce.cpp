#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "fsdp/implementation.hpp"

namespace matrixfsdp {

void ShardedModel::Implementation::begin_step() {
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
  Kokkos::deep_copy(unit.gradient_buffer, 0.0F);
  unit.gradient_begun = true;
  return unit.gradients;
}

// Formula: G = (((g_0 + g_1) + g_2) + ...) over micro-batch index pass * W + rank. That order knows neither owners nor
// W, so the bits depend on the global batch alone. This pass adds its W terms to the running sums of each rank's chunk;
// after the last pass the chunks move to where the segments live.
void ShardedModel::Implementation::reduce(std::size_t index) {
  Unit& unit = at(index);
  gradients(index);  // nothing written: zeros take part, so the set of collectives never depends on gradients
  const bool last = pass + 1 == options.passes;
  const bool accumulate_locally = options.accumulation == Accumulation::unsharded;
  const std::int64_t size = unit.gradient_table.size;
  ++unit.passes_reduced;
  if (!accumulate_locally || last) {
    announce("reduce", index, "backward");
    const bool first = pass == 0 || accumulate_locally;
    const OperationLabel label{"reduce", unit.name, "backward"};
    const std::int64_t chunk = fold_chunk(size, communicator.rank(), plan.world_size).size();
    const bool alone = plan.world_size == 1;
    const Tensor<float>& sums_storage =
        alone ? unit.gradient_shard : (unit.running_sums.size() > 0 ? unit.running_sums : shared_sums);
    const TensorView<float> sums = slice(sums_storage, 0, chunk);
    fold_exchange(communicator, size, first, unit.gradient_buffer, sums, label).wait();
    if (last && !alone) {
      const TensorView<float> target =
          slice(unit.gradient_shard, 0, static_cast<std::int64_t>(unit.gradient_shard.size()));
      if (plan.replicated) {
        gather(communicator, Purpose::reduce, unit.gradient_chunks, sums, target, label).wait();
      } else {
        scatter_chunks(communicator, unit.gradient_table, sums, target, label).wait();
      }
    }
  }
  if (!accumulate_locally) unit.gradient_begun = false;
  if (shared_gradient_unit == static_cast<std::int64_t>(index)) shared_gradient_unit = -1;
}

bool ShardedModel::Implementation::gradients_ready() const {
  for (const Unit& unit : units) {
    if (unit.passes_reduced != options.passes) return false;
  }
  return step > 0;
}

}  // namespace matrixfsdp
