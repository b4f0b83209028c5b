#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>

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

}  // namespace

std::vector<std::int64_t> detail::sum_shares(CollectiveAlgorithm algorithm, const SegmentTable& table,
                                             std::int64_t passes, DType wire) {
  validate(table, static_cast<int>(table.intervals.size()));
  if (passes < 1) throw ContractError(fmt::format("reduce of {} passes: expected at least 1", passes));
  require_wire(wire, "reduce as");
  if (algorithm == CollectiveAlgorithm::direct) return shard_sizes(table);
  if (algorithm == CollectiveAlgorithm::scatter)
    return shares_of(table, passes, static_cast<std::int64_t>(sizeof(float) / size_of(wire)));
  throw ContractError(fmt::format("reduce by {}: expected direct or scatter", name_of(algorithm)));
}

Reduce prepare_reduce(CollectiveAlgorithm algorithm, SegmentTable table, std::int64_t passes, DType wire) {
  const std::vector<std::int64_t> shares = detail::sum_shares(algorithm, table, passes, wire);
  Reduce reduce;
  reduce.wire = wire;
  reduce.blocks.resize(table.intervals.size());
  const std::vector<Piece> pieces = detail::deal(table, shares);
  for (const bool own : {false, true}) {
    for (const Piece& piece : pieces) {
      if ((piece.owner == piece.holder) != own) continue;
      auto& blocks = reduce.blocks[static_cast<std::size_t>(piece.holder)];
      for (std::int64_t at = piece.elements.begin; at < piece.elements.end; at += exchange_block)
        blocks.push_back({{at, std::min(at + exchange_block, piece.elements.end)}, piece.owner, piece.holder});
    }
  }
  reduce.table = std::move(table);
  return reduce;
}

Reduce prepare_reduce(const Plan& plan, std::size_t unit, std::int64_t passes, DType wire,
                      CollectiveAlgorithm algorithm) {
  const MatrixShard& gradients = plan.units[unit].gradients;
  if (plan.replicated)
    return prepare_reduce(CollectiveAlgorithm::direct, even_table(gradients.size, plan.world_size), passes, wire);
  return prepare_reduce(algorithm, segment_table(gradients), passes, wire);
}

std::int64_t running_sum_elements(const Reduce& reduce, int rank) {
  std::int64_t elements = 0;
  for (const Piece& block : reduce.held_by(rank)) {
    if (block.owner != rank) elements += block.elements.size();
  }
  return elements;
}

std::array<std::int64_t, 2> reduce_staging(const Reduce& reduce, int rank) {
  std::array<std::int64_t, 2> halves{};
  const std::vector<Piece>& blocks = reduce.held_by(rank);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    halves[i % 2] = std::max(halves[i % 2], blocks[i].elements.size());
  return halves;
}

std::int64_t reduce_staging_bytes(const Reduce& reduce, int rank) {
  const auto [even, odd] = reduce_staging(reduce, rank);
  const auto peers = static_cast<std::int64_t>(reduce.table.intervals.size()) - 1;
  return static_cast<std::int64_t>(size_of(reduce.wire)) * peers * (even + odd);
}

}  // namespace matrixfsdp
