#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>

#include "plan/collectives/reduce_runs.hpp"
#include "plan/collectives/shares.hpp"
#include "plan/wire.hpp"

namespace matrixfsdp {
namespace {

/// With the share c of the sums, rank r, which owns o, receives A c (W - 1) in A passes, and o - x after the last, x of
/// its own elements being in its share: min(o, c). A sum has the size of `weight` gradients. The share at which that
/// reaches `level`, in gradients:
std::int64_t share_at(std::int64_t level, std::int64_t owned, std::int64_t copies, std::int64_t weight) {
  if (level / copies >= owned) return level / copies;
  return std::max<std::int64_t>(0, (level - weight * owned) / (copies - weight));
}

std::vector<std::int64_t> shares_of(const SegmentTable& table, std::int64_t passes, std::int64_t weight) {
  const auto world_size = static_cast<int>(table.intervals.size());
  const std::int64_t copies = passes * (world_size - 1);  // of each element that a rank holds
  std::vector<std::int64_t> owned = detail::shard_sizes(table);
  // With that few copies a helper's sum is no smaller than what it saves the owner.
  if (copies <= weight || table.size == 0) return owned;
  // At this level even a rank that owns everything has room for P / W, and a remainder.
  const std::int64_t most = weight * table.size + (table.size / world_size + 1) * copies;
  return detail::water_fill(world_size, table.size, most, [&](int rank, std::int64_t level) {
    return share_at(level, owned[static_cast<std::size_t>(rank)], copies, weight);
  });
}

/// In messages; others' elements first.
void share_by_load(Reduce& reduce) {
  const bool levelled = reduce.algorithm == CollectiveAlgorithm::scatter;
  const std::vector<std::int64_t> shares =
      levelled ? shares_of(reduce.table, reduce.passes, static_cast<std::int64_t>(sizeof(float) / size_of(reduce.wire)))
               : detail::shard_sizes(reduce.table);
  reduce.blocks.resize(reduce.table.intervals.size());
  const std::vector<Piece> pieces = detail::deal(reduce.table, shares);
  for (const bool own : {false, true}) {
    for (const Piece& piece : pieces) {
      if ((piece.owner == piece.holder) != own) continue;
      auto& blocks = reduce.blocks[static_cast<std::size_t>(piece.holder)];
      for (std::int64_t at = piece.elements.begin; at < piece.elements.end; at += reduce.message)
        blocks.push_back({{at, std::min(at + reduce.message, piece.elements.end)}, piece.owner, piece.holder});
    }
  }
  for (int rank = 0; rank < reduce.world_size(); ++rank)
    reduce.list_of.push_back(rank % reduce.members());
}

void require_settings(const ReduceSettings& settings, int members, int ranks) {
  if (ranks < members || ranks % members != 0) {
    throw ContractError(
        fmt::format("reduce of {} ranks with a segment table for {}: expected whole shard groups", ranks, members));
  }
  if (settings.passes < 1)
    throw ContractError(fmt::format("reduce of {} passes: expected at least 1", settings.passes));
  detail::require_wire(settings.wire, "reduce as");
  if (settings.sum_group < 1)
    throw ContractError(fmt::format("sum group of {} micro-batches: expected at least 1", settings.sum_group));
  if (settings.passes * ranks % settings.sum_group != 0) {
    throw InputError(
        fmt::format("sum group of {} micro-batches: expected a divisor of those of a step, {} passes x {} ranks = {}",
                    settings.sum_group, settings.passes, ranks, settings.passes * ranks));
  }
}

/// Whether in some pass a group of the sum is not complete where a run ends.
bool opens_between_runs(const Reduce& reduce) {
  const std::int64_t different = std::min(reduce.passes, reduce.sum_group);  // later passes leave the same remainders
  for (std::int64_t pass = 0; pass < different; ++pass) {
    for (const RankGroup& run : reduce.runs) {
      if (run.first > 0 && (pass * reduce.world_size() + run.first) % reduce.sum_group != 0) return true;
    }
  }
  return false;
}

}  // namespace

void require_reduces(CollectiveAlgorithm algorithm) {
  if (algorithm != CollectiveAlgorithm::padded && algorithm != CollectiveAlgorithm::allgatherv) return;
  throw ContractError(fmt::format(
      "reduce by {}, which only unshards: expected direct, chain, scatter, tree or hierarchical", name_of(algorithm)));
}

Reduce prepare_reduce(CollectiveAlgorithm algorithm, SegmentTable table, const Topology& topology,
                      const ReduceSettings& settings) {
  const auto members = static_cast<int>(table.intervals.size());
  validate(table, members);
  require_settings(settings, members, topology.world_size());
  require_reduces(algorithm);
  Reduce reduce;
  reduce.algorithm = algorithm;
  reduce.replicas = topology.world_size() / members;
  reduce.passes = settings.passes;
  reduce.wire = settings.wire;
  reduce.sum_group = settings.sum_group;
  reduce.message = message_elements(topology);
  reduce.table = std::move(table);
  reduce.runs = detail::runs_of(algorithm, topology, members);
  if (reduce.returns_sums())
    detail::share_evenly(reduce);
  else if (algorithm == CollectiveAlgorithm::tree)
    detail::give_all_to_root(reduce);
  else
    share_by_load(reduce);
  reduce.open_between_runs = opens_between_runs(reduce);
  reduce.open_between_passes = reduce.passes > 1 && reduce.world_size() % reduce.sum_group != 0;
  return reduce;
}

Reduce prepare_reduce(CollectiveAlgorithm algorithm, SegmentTable table, std::int64_t passes, DType wire) {
  const auto ranks = static_cast<int>(table.intervals.size());
  return prepare_reduce(algorithm, std::move(table), make_topology(ranks, ranks), {passes, wire, 1});
}

Reduce prepare_reduce(const Plan& plan, std::size_t unit, const Topology& topology, const ReduceSettings& settings,
                      CollectiveAlgorithm algorithm) {
  const MatrixShard& gradients = plan.units[unit].gradients;
  if (!plan.replicated) return prepare_reduce(algorithm, segment_table(gradients), topology, settings);
  // Nobody owns more than others, so nobody helps.
  const bool scatter = algorithm == CollectiveAlgorithm::scatter;
  return prepare_reduce(scatter ? CollectiveAlgorithm::direct : algorithm, even_table(gradients.size, plan.world_size),
                        topology, settings);
}

namespace {

std::int64_t elements_of(const std::vector<Piece>& blocks) {
  std::int64_t elements = 0;
  for (const Piece& block : blocks)
    elements += block.elements.size();
  return elements;
}

}  // namespace

std::int64_t running_sum_elements(const Reduce& reduce, int rank) {
  const std::int64_t open = reduce.open_between_passes ? 1 : 0;
  if (reduce.returns_sums()) return open * reduce.table.shard_size(rank % reduce.members());
  const std::vector<Piece>& held = reduce.held_by(rank);
  if (reduce.algorithm == CollectiveAlgorithm::tree) return (1 + open) * elements_of(held);
  std::int64_t elements = open * elements_of(held);
  for (const Piece& block : held) {
    if (block.owner != rank % reduce.members()) elements += block.elements.size();
  }
  return elements;
}

ReduceSlots reduce_slots(const Reduce& reduce, int rank) {
  std::vector<std::int64_t> longest(reduce.window(), 0);
  const std::vector<Piece>& blocks = reduce.held_by(rank);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    longest[i % longest.size()] = std::max(longest[i % longest.size()], blocks[i].elements.size());
  ReduceSlots slots;
  for (const std::int64_t elements : longest) {
    slots.begin.push_back(slots.elements);
    slots.elements += elements;
  }
  return slots;
}

namespace {

ReduceStaging tree_staging(const Reduce& reduce, int rank) {
  const int ranks = reduce.world_size();
  const TreePosition place = tree_position((rank - reduce.root + ranks) % ranks, ranks);
  if (place.size == 1) return {};
  ReduceStaging staging;
  staging.gradients = (place.size - (place.parent < 0 ? 1 : 0)) * reduce.table.size;
  for (int position = place.position; position < place.position + place.size; ++position)
    staging.arriving += reduce.table.shard_size((reduce.root + position) % ranks % reduce.members());
  return staging;
}

}  // namespace

ReduceStaging staging_of(const Reduce& reduce, int rank) {
  if (reduce.algorithm == CollectiveAlgorithm::tree) return tree_staging(reduce, rank);
  const std::int64_t slots = reduce_slots(reduce, rank).elements;
  const bool returns = reduce.returns_sums();
  const bool open = reduce.open_between_runs || reduce.open_between_passes;
  const bool open_is_kept = !returns && reduce.open_between_passes;
  const int arriving = int{reduce.runs.size() > 1 || (returns && reduce.passes > 1)} +
                       int{reduce.open_between_runs || (returns && reduce.open_between_passes)};
  const int passing = int{returns && reduce.wire == DType::bfloat16} + int{open && !open_is_kept};
  ReduceStaging staging;
  staging.gradients = (reduce.runs[reduce.run_of(rank)].size - 1) * slots;
  staging.arriving = arriving * slots;
  staging.passing = passing * elements_of(reduce.held_by(rank));
  return staging;
}

std::int64_t reduce_staging_bytes(const Reduce& reduce, int rank) {
  return staging_of(reduce, rank).bytes(reduce.wire);
}

bool same_messages(const Reduce& a, const Reduce& b) {
  const auto by_tree = [](const Reduce& reduce) { return reduce.algorithm == CollectiveAlgorithm::tree; };
  return a.returns_sums() == b.returns_sums() && by_tree(a) == by_tree(b) && a.wire == b.wire && a.passes == b.passes &&
         a.sum_group == b.sum_group && a.message == b.message && a.replicas == b.replicas && a.runs == b.runs &&
         a.blocks == b.blocks && a.list_of == b.list_of;
}

}  // namespace matrixfsdp
