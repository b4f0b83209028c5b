#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/gradient_slots.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

#include "fsdp/implementation.hpp"

namespace matrixfsdp {

UnitTensors<float> parameter_tensors(const UnitSpec& spec, const MatrixShard& shard, const TensorView<float>& buffer) {
  UnitTensors<float> tensors;
  tensors.reserve(spec.parameters.size());
  for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
    const std::int64_t offset = shard.parameter_offsets[p];
    tensors.push_back(offset < 0 ? TensorView<float>()
                                 : slice(buffer, offset, element_count(spec.parameters[p].shape)));
  }
  return tensors;
}

void ShardedModel::Implementation::check_resident(const std::vector<UnitPolicy>& policies) const {
  for (std::size_t u = 0; u < policies.size(); ++u) {
    if (options.resident_weights && policies[u].param_dtype != DType::float32) {
      throw ContractError(fmt::format("unit {}: weights as {}, expected float32 where they are resident",
                                      model.units[u].name, name_of(policies[u].param_dtype)));
    }
    if ((options.resident_weights || plan.row_shards) && policies[u].reshard_to > 1) {
      throw ContractError(fmt::format("unit {}: reshard to {} ranks, expected 0 or 1 with {}", model.units[u].name,
                                      policies[u].reshard_to,
                                      options.resident_weights ? "resident weights" : "row shards"));
    }
  }
}

void ShardedModel::Implementation::allocate() {
  const std::int64_t exchanges = options.accumulation == Accumulation::chunks ? options.passes : 1;
  const std::vector<UnitPolicy> policies = resolve(options.policies, model, group.size);
  check_resident(policies);
  std::int64_t most_sums = 0;
  units.resize(model.units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    allocate_unit(u, policies[u], exchanges);
    const std::int64_t sums = running_sum_elements(unit.reduce, communicator.rank());
    most_sums = std::max(most_sums, sums);
    if (exchanges > 1) unit.running_sums = make_tensor<float>(unit.name + " running sums", sums);
  }
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, options.reduces_in_flight); ++i)
    shared_sums.push_back(make_tensor<float>("running sums", exchanges == 1 ? most_sums : 0));
  allocate_gradients();
  allocate_storage();
  if (copies()) allocate_landing();
  allocate_held();
  allocate_gradient_buffers();
  if (copies())
    make_row_views();
  else
    make_views();
}

void ShardedModel::Implementation::allocate_unit(std::size_t index, const UnitPolicy& policy, std::int64_t exchanges) {
  const int rank = member();
  Unit& unit = units[index];
  const UnitPlan& layout = plan.units[index];
  const UnitAlgorithms ways = collectives_of(index);
  unit.name = model.units[index].name;
  unit.policy = policy;
  if (!whole_here()) {
    unit.unshard =
        prepare_unshard(ways.unshard, segment_table(layout.weights), topology, rank, {}, unit.policy.param_dtype);
    unit.unshard.first_rank = group.first;
  }
  unit.reduce =
      prepare_reduce(plan, index, all_nodes, {exchanges, unit.policy.reduce_dtype, options.sum_group}, ways.reduce);
  if (plan.replicated) {
    unit.gradient_chunks =
        prepare_unshard(ways.unshard, even_table(layout.gradients.size, plan.world_size), topology, rank);
  }
  const bool whole_weights = whole_here() || options.resident_weights;
  unit.weight_shard =
      make_zeros<float>(unit.name + " weights", whole_weights ? layout.weights.size : layout.weights.shard_size(rank));
}

/// One storage for each unit, or with step in backward one for each that may be in flight.
void ShardedModel::Implementation::allocate_gradients() {
  if (!shares_gradients()) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::int64_t size = gradient_elements(plan, u, member());
      gradient_shards.push_back(make_zeros<float>(units[u].name + " gradients", size));
      units[u].gradient_shard = slice(gradient_shards.back(), 0, size);
    }
    return;
  }
  for (const std::int64_t size : gradient_slots(plan, member(), options.reduces_in_flight))
    gradient_shards.push_back(make_zeros<float>("gradients in flight", size));
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::size_t slot = gradient_slot(u, units.size(), options.reduces_in_flight);
    units[u].gradient_slot = slot;
    units[u].gradient_shard = slice(gradient_shards[slot], 0, gradient_elements(plan, u, member()));
  }
}

/// Where row shards arrive: units that are prefetched are neighbours, so each has a place of its own.
void ShardedModel::Implementation::allocate_landing() {
  std::int64_t largest = 0;
  for (const UnitPlan& unit : plan.units)
    largest = std::max(largest, unit.weights.size);
  const std::int64_t count = landing_slots(options.prefetch, units.size());
  for (std::int64_t i = 0; i < count; ++i)
    landings.push_back(make_tensor<float>("row shards that arrive", largest));
  landing_occupant.assign(landings.size(), -1);
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    unit.landing_slot = static_cast<int>(u % landings.size());
    unit.landing = slice(landings[u % landings.size()], 0, plan.units[u].weights.size);
    unit.weight_spans = copy_spans(plan.units[u].weights);
    unit.gradient_spans = copy_spans(plan.units[u].gradients);
  }
}

void ShardedModel::Implementation::allocate_storage() {
  std::int64_t recycled = 0;
  std::int64_t largest = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (is_kept(u) || is_resident(units[u])) continue;
    ++recycled;
    largest = std::max(largest, plan.units[u].weights.size);
  }
  const std::int64_t slot_count = std::min<std::int64_t>(copies() ? 1 : options.prefetch + 1, recycled);
  for (std::int64_t s = 0; s < slot_count; ++s)
    slots.push_back(make_tensor<float>("unshard slot", largest));
  slot_occupant.assign(slots.size(), -1);

  std::int64_t ordinal = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    if (is_resident(unit)) {
      unit.storage = slice(unit.weight_shard, 0, plan.units[u].weights.size);
      unit.current = true;
    } else if (is_kept(u)) {
      kept_storage.push_back(make_tensor<float>(unit.name + " unsharded", plan.units[u].weights.size));
      unit.storage = slice(kept_storage.back(), 0, plan.units[u].weights.size);
    } else {
      unit.slot = static_cast<int>(ordinal++ % slot_count);
      unit.storage = slice(slots[static_cast<std::size_t>(unit.slot)], 0, plan.units[u].weights.size);
    }
    unit.weights = parameter_tensors(model.units[u], plan.units[u].weights, unit.storage);
  }
}

void ShardedModel::Implementation::allocate_held() {
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    const int holders = static_cast<int>(unit.policy.reshard_to);
    if (holders <= 1) continue;
    const SegmentTable table = even_table(plan.units[u].weights.size, holders);
    const int first = member() / holders * holders;
    unit.unshard_held = prepare_unshard(options.collective, table, topology_of(topology, {first, holders}),
                                        member() - first, {}, unit.policy.param_dtype);
    unit.unshard_held.first_rank = group.first + first;
    unit.held = make_tensor<float>(unit.name + " held", table.shard_size(member() - first));
  }
}

void ShardedModel::Implementation::allocate_gradient_buffers() {
  const bool own_buffers = options.accumulation == Accumulation::unsharded;
  std::int64_t largest = 0;
  std::int64_t sharing = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (model.units[u].keep || own_buffers) continue;
    ++sharing;
    largest = std::max(largest, plan.units[u].gradients.size);
  }
  const std::int64_t shared = std::min<std::int64_t>(copies() ? 1 : options.reduces_in_flight + 1, sharing);
  for (std::int64_t b = 0; b < shared; ++b)
    gradient_storage.push_back(make_tensor<float>("gradient buffer", largest));
  std::int64_t ordinal = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    if (model.units[u].keep || own_buffers) {
      gradient_storage.push_back(make_tensor<float>(unit.name + " gradient buffer", plan.units[u].gradients.size));
      unit.gradient_buffer = slice(gradient_storage.back(), 0, plan.units[u].gradients.size);
    } else {
      const auto& buffer = gradient_storage[static_cast<std::size_t>(ordinal++ % shared)];
      unit.gradient_buffer = slice(buffer, 0, plan.units[u].gradients.size);
    }
    unit.gradients = parameter_tensors(model.units[u], plan.units[u].gradients, unit.gradient_buffer);
  }
  for (std::size_t i = 0; copies() && i < shared_sums.size(); ++i) {
    for (const UnitPlan& unit : plan.units)
      largest = std::max(largest, unit.gradients.size);
    travelling.push_back(make_tensor<float>("gradients that travel", largest));
  }
}

namespace {

/// Position of a flat-buffer offset in this rank's shard: its owned interval, then its tail interval.
std::int64_t shard_position(const MatrixShard& shard, int rank, std::int64_t offset) {
  const Interval owned = shard.owned[static_cast<std::size_t>(rank)];
  const Interval tails = shard.tails[static_cast<std::size_t>(rank)];
  return offset >= owned.begin && offset < owned.end ? offset - owned.begin : owned.size() + offset - tails.begin;
}

}  // namespace

void ShardedModel::Implementation::add_view(std::size_t unit, std::size_t parameter, Interval elements,
                                            const TensorView<float>& weight, const TensorView<float>& gradient) {
  ParameterView view;
  view.unit = unit;
  view.index = parameter;
  view.spec = &model.units[unit].parameters[parameter];
  view.kind = kind_of(*view.spec);
  view.group = group_of(model, *view.spec);
  view.elements = elements;
  view.weight = weight;
  view.gradient = gradient;
  resident_views.push_back(view);
  if (!view.spec->frozen) trainable_views.push_back(view);
}

void ShardedModel::Implementation::make_views() {
  const int rank = member();
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    const UnitPlan& layout = plan.units[u];
    const auto add = [&](std::size_t p, Interval elements) {
      if (elements.empty()) return;
      const auto place = [&](const MatrixShard& shard, const TensorView<float>& values, bool whole) {
        const std::int64_t offset = shard.parameter_offsets[p] + elements.begin;
        return slice(values, whole ? offset : shard_position(shard, rank, offset), elements.size());
      };
      const bool whole_weights = whole_here() || options.resident_weights;
      add_view(u, p, elements, place(layout.weights, unit.weight_shard, whole_weights),
               model.units[u].parameters[p].frozen ? TensorView<float>()
                                                   : place(layout.gradients, unit.gradient_shard, whole_here()));
    };
    if (whole_here()) {
      for (std::size_t p = 0; p < model.units[u].parameters.size(); ++p)
        add(p, {0, element_count(model.units[u].parameters[p].shape)});
      continue;
    }
    std::vector<Segment> mine;
    for (const Segment& segment : layout.weights.segments) {
      if (segment.rank == rank) mine.push_back(segment);
    }
    std::sort(mine.begin(), mine.end(), [](const Segment& a, const Segment& b) {
      return a.parameter != b.parameter ? a.parameter < b.parameter : a.elements.begin < b.elements.begin;
    });
    for (const Segment& segment : mine)
      add(segment.parameter, segment.elements);
  }
}

/// Segments of a rank stand side by side, in canonical order, in both buffers; frozen ones in one of them only.
void ShardedModel::Implementation::make_row_views() {
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::int64_t weight = 0;
    std::int64_t gradient = 0;
    for (const Segment& segment : plan.units[u].weights.segments) {
      if (segment.rank != member()) continue;
      const std::int64_t count = segment.elements.size();
      const bool frozen = model.units[u].parameters[segment.parameter].frozen;
      add_view(u, segment.parameter, segment.elements, slice(units[u].weight_shard, weight, count),
               frozen ? TensorView<float>() : slice(units[u].gradient_shard, gradient, count));
      weight += count;
      gradient += frozen ? 0 : count;
    }
  }
}

MemoryUse ShardedModel::Implementation::memory() const {
  MemoryUse use;
  for (const Unit& unit : units) {
    use.weights += bytes_of(unit.weight_shard);
    use.running_sums += bytes_of(unit.running_sums);
    use.held += bytes_of(unit.held);
    use.staging_peak = std::max(use.staging_peak, reduce_staging_bytes(unit.reduce, communicator.rank()));
  }
  for (const auto& storage : gradient_shards)
    use.gradients += bytes_of(storage);
  use.staging_peak *= static_cast<std::int64_t>(shared_sums.size());
  for (const auto& storage : slots)
    use.unsharded += bytes_of(storage);
  for (const auto* more : {&kept_storage, &landings}) {
    for (const auto& storage : *more)
      use.unsharded += bytes_of(storage);
  }
  for (const auto* more : {&gradient_storage, &travelling}) {
    for (const auto& storage : *more)
      use.gradient_buffers += bytes_of(storage);
  }
  for (const auto& storage : shared_sums)
    use.running_sums += bytes_of(storage);
  return use;
}

}  // namespace matrixfsdp
