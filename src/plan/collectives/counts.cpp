#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/collectives/broadcast_tree.hpp"
#include "plan/collectives/counter.hpp"
#include "plan/collectives/node_places.hpp"
#include "plan/collectives/shares.hpp"

namespace matrixfsdp {
namespace {

using detail::Counter;
using detail::Load;
using detail::load_of;
using detail::NodePlaces;

std::vector<Load> loads_of(const SegmentTable& table, std::int64_t block, bool padded) {
  std::vector<Load> loads(table.intervals.size());
  std::int64_t longest = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    for (const Interval& interval : table.intervals[rank])
      loads[rank] += load_of(interval.size(), block);
    longest = std::max(longest, loads[rank].elements);
  }
  for (Load& load : loads) {
    if (padded) load += load_of(longest - load.elements, block);
  }
  return loads;
}

/// Every rank passes on all but what the next one owns.
void count_chain(const std::vector<Load>& owned, const NodePlaces& places, Counter& counter) {
  Load all;
  for (const Load& one : owned)
    all += one;
  for (std::size_t i = 0; i < places.order.size(); ++i) {
    const int next = places.order[(i + 1) % places.order.size()];
    if (next != places.order[i]) counter.pass(places.order[i], next, all - owned[static_cast<std::size_t>(next)]);
  }
}

/// A piece goes to its relay, if that is not its owner, and from there to all others.
void count_stars(const std::vector<Piece>& pieces, std::int64_t block, const NodePlaces& places, Counter& counter) {
  const int world_size = static_cast<int>(places.order.size());
  std::vector<std::int64_t> relayed(places.ranks_on.size(), 0);  // on each node
  std::int64_t all = 0;
  for (const Piece& piece : pieces) {
    const Load load = load_of(piece.elements.size(), block);
    relayed[static_cast<std::size_t>(places.node[static_cast<std::size_t>(piece.holder)])] += load.elements;
    all += load.elements;
    std::int64_t inside = places.neighbours(piece.holder) - 1;
    std::int64_t between = world_size - 1 - inside;
    if (piece.owner != piece.holder) {
      const bool near = places.same(piece.owner, piece.holder);
      (near ? inside : between) -= 1;
      counter.pass(piece.owner, piece.holder, load);
      // What is taken back here is added for every rank below.
      counter.receive(piece.holder, -load.elements, 0);
      counter.receive(piece.owner, -load.elements, near ? 0 : -load.elements);
    } else {
      counter.receive(piece.owner, -load.elements, 0);
    }
    counter.send(piece.holder, load, inside, between);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const int node = places.node[static_cast<std::size_t>(rank)];
    counter.receive(rank, all, all - relayed[static_cast<std::size_t>(node)]);
  }
}

/// Of any tree, rank by rank: O(owners x W).
void count_trees(const std::vector<Load>& owned, const detail::BroadcastTree& tree, Counter& counter) {
  const int world_size = static_cast<int>(owned.size());
  for (int owner = 0; owner < world_size; ++owner) {
    const Load& load = owned[static_cast<std::size_t>(owner)];
    for (int rank = 0; load.elements > 0 && rank < world_size; ++rank) {
      if (rank != owner) counter.pass(tree.parent({owner, owner}, rank), rank, load);
    }
  }
}

}  // namespace

std::vector<TransferCounts> unshard_counts(CollectiveAlgorithm algorithm, const SegmentTable& table,
                                           const Topology& topology, std::optional<std::int64_t> asked) {
  validate(table, topology.world_size());
  const std::int64_t block_elements = asked.value_or(message_elements(topology));
  if (block_elements < 1)
    throw ContractError(fmt::format("blocks of {} elements: expected at least 1", block_elements));
  const NodePlaces places(topology);
  Counter counter(table.intervals.size(), places);
  switch (algorithm) {
    case CollectiveAlgorithm::direct:
      count_stars(detail::deal(table, detail::shard_sizes(table)), block_elements, places, counter);
      break;
    case CollectiveAlgorithm::scatter:
      count_stars(detail::deal(table, detail::relay_shares(table)), block_elements, places, counter);
      break;
    case CollectiveAlgorithm::chain:
    case CollectiveAlgorithm::padded:
      count_chain(loads_of(table, block_elements, algorithm == CollectiveAlgorithm::padded), places, counter);
      break;
    default:
      count_trees(loads_of(table, block_elements, false), *detail::make_broadcast_tree(algorithm, topology), counter);
  }
  return std::move(counter.counts);
}

}  // namespace matrixfsdp
