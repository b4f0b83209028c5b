#include <algorithm>

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

void ShardedModel::Implementation::allocate() {
  const int rank = member();
  const int ranks = plan.world_size;
  const std::int64_t exchanges = options.accumulation == Accumulation::chunks ? options.passes : 1;
  const std::vector<UnitPolicy> policies = resolve(options.policies, model, group.size);
  std::int64_t most_sums = 0;
  units.resize(model.units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    const UnitPlan& layout = plan.units[u];
    const UnitAlgorithms ways = collectives_of(u);
    unit.name = model.units[u].name;
    unit.policy = policies[u];
    if (!whole_here()) {
      unit.unshard = prepare_unshard(ways.unshard, segment_table(layout.weights), topology, rank, exchange_block,
                                     unit.policy.param_dtype);
      unit.unshard.first_rank = group.first;
    }
    unit.reduce =
        prepare_reduce(plan, u, all_nodes, {exchanges, unit.policy.reduce_dtype, options.sum_group}, ways.reduce);
    if (plan.replicated) {
      unit.gradient_chunks = prepare_unshard(ways.unshard, even_table(layout.gradients.size, ranks), topology, rank);
    }
    const std::int64_t weight_size = whole_here() ? layout.weights.size : layout.weights.shard_size(rank);
    const std::int64_t gradient_size = whole_here() ? layout.gradients.size : layout.gradients.shard_size(rank);
    unit.weight_shard = make_zeros<float>(unit.name + " weights", weight_size);
    unit.gradient_shard = make_zeros<float>(unit.name + " gradients", gradient_size);
    const std::int64_t sums = running_sum_elements(unit.reduce, communicator.rank());
    most_sums = std::max(most_sums, sums);
    if (exchanges > 1) unit.running_sums = make_tensor<float>(unit.name + " running sums", sums);
  }
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, options.reduces_in_flight); ++i)
    shared_sums.push_back(make_tensor<float>("running sums", exchanges == 1 ? most_sums : 0));
  allocate_storage();
  allocate_held();
  allocate_gradient_buffers();
  make_views();
}

void ShardedModel::Implementation::allocate_storage() {
  std::int64_t recycled = 0;
  std::int64_t largest = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (is_kept(u) || is_resident(units[u])) continue;
    ++recycled;
    largest = std::max(largest, plan.units[u].weights.size);
  }
  const std::int64_t slot_count = std::min(options.prefetch + 1, recycled);
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
                                        member() - first, exchange_block, unit.policy.param_dtype);
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
  const std::int64_t shared = std::min(options.reduces_in_flight + 1, sharing);
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
}

namespace {

/// Position of a flat-buffer offset in this rank's shard: its owned interval, then its tail interval.
std::int64_t shard_position(const MatrixShard& shard, int rank, std::int64_t offset) {
  const Interval owned = shard.owned[static_cast<std::size_t>(rank)];
  const Interval tails = shard.tails[static_cast<std::size_t>(rank)];
  return offset >= owned.begin && offset < owned.end ? offset - owned.begin : owned.size() + offset - tails.begin;
}

}  // namespace

void ShardedModel::Implementation::make_views() {
  const int rank = member();
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    const UnitSpec& spec = model.units[u];
    const UnitPlan& layout = plan.units[u];
    const auto add = [&](std::size_t p, Interval elements) {
      if (elements.empty()) return;
      ParameterView view;
      view.unit = u;
      view.index = p;
      view.spec = &spec.parameters[p];
      view.kind = kind_of(spec.parameters[p]);
      view.group = group_of(model, spec.parameters[p]);
      view.elements = elements;
      const auto place = [&](const MatrixShard& shard, const Tensor<float>& values) {
        const std::int64_t offset = shard.parameter_offsets[p] + elements.begin;
        return slice(values, whole_here() ? offset : shard_position(shard, rank, offset), elements.size());
      };
      view.weight = place(layout.weights, unit.weight_shard);
      if (!view.spec->frozen) view.gradient = place(layout.gradients, unit.gradient_shard);
      resident_views.push_back(view);
      if (!view.spec->frozen) trainable_views.push_back(view);
    };
    if (whole_here()) {
      for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
        add(p, {0, element_count(spec.parameters[p].shape)});
      }
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

MemoryUse ShardedModel::Implementation::memory() const {
  MemoryUse use;
  for (const Unit& unit : units) {
    use.weights += bytes_of(unit.weight_shard);
    use.gradients += bytes_of(unit.gradient_shard);
    use.running_sums += bytes_of(unit.running_sums);
    use.held += bytes_of(unit.held);
    use.staging_peak = std::max(use.staging_peak, reduce_staging_bytes(unit.reduce, communicator.rank()));
  }
  use.staging_peak *= static_cast<std::int64_t>(shared_sums.size());
  for (const auto& storage : slots)
    use.unsharded += bytes_of(storage);
  for (const auto& storage : kept_storage)
    use.unsharded += bytes_of(storage);
  for (const auto& storage : gradient_storage)
    use.gradient_buffers += bytes_of(storage);
  for (const auto& storage : shared_sums)
    use.running_sums += bytes_of(storage);
  return use;
}

}  // namespace matrixfsdp
