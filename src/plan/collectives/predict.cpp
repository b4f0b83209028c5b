#include <algorithm>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/collectives/broadcast_tree.hpp"
#include "plan/collectives/prices.hpp"
#include "plan/collectives/shares.hpp"

namespace matrixfsdp {
namespace {

using detail::Prices;

/// The longest way, in hops and in bytes.
struct Way {
  double latency = 0;
  double bytes = 0;

  void longest(const Way& other) {
    latency = std::max(latency, other.latency);
    bytes = std::max(bytes, other.bytes);
  }
};

Way chain_way(const Prices& prices, bool padded) {
  const std::vector<int>& order = prices.places.order;
  const std::vector<std::int64_t> sizes = detail::shard_sizes(prices.table);
  const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  double round = 0;       // latency of the whole circle
  double round_byte = 0;  // of an element, once around
  double slowest = 0;     // hop of an element
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int next = order[(i + 1) % order.size()];
    round += prices.alpha(order[i], next);
    round_byte += prices.hop(1, order[i], next);
    slowest = std::max(slowest, prices.hop(1, order[i], next));
  }
  Way way;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t own = padded ? longest : sizes[static_cast<std::size_t>(order[i])];
    if (own == 0) continue;
    const int before = order[(i + order.size() - 1) % order.size()];
    way.longest({round - prices.alpha(before, order[i]),
                 prices.pipelined(own, round_byte - prices.hop(1, before, order[i]), slowest)});
  }
  return way;
}

/// To helpers, and from each of them to all others. All helpers of a node, and of an owner, are busy at once.
Way scatter_way(const Prices& prices, const std::vector<Piece>& pieces, const std::vector<TransferCounts>& counts) {
  Way way;
  std::vector<std::int64_t> out_of_node(prices.places.ranks_on.size(), 0);
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    out_of_node[static_cast<std::size_t>(prices.places.node[rank])] += counts[rank].sent_between_nodes;
  std::vector<std::int64_t> out_inside(prices.table.intervals.size(), 0);  // of each owner, to helpers
  std::vector<std::int64_t> out_between(prices.table.intervals.size(), 0);
  std::vector<double> relayed(prices.table.intervals.size(), -1);  // of the owner: the longest second hop
  for (const Piece& piece : pieces) {
    const auto owner = static_cast<std::size_t>(piece.owner);
    const bool near = prices.places.same(piece.owner, piece.holder);
    const std::int64_t inside = prices.places.neighbours(piece.holder) - 1;
    const std::int64_t between = prices.world_size() - 1 - inside;
    if (piece.owner == piece.holder) {
      out_inside[owner] += piece.elements.size() * inside;
      out_between[owner] += piece.elements.size() * between;
      way.latency = std::max(way.latency, prices.alpha());
      continue;
    }
    (near ? out_inside : out_between)[owner] += piece.elements.size();
    const std::int64_t tail = prices.tail_of(piece.elements.size());
    // What helpers beside the owner send to other nodes is in what that node sends, below.
    const double queued = static_cast<double>(tail) / static_cast<double>(prices.message());
    relayed[owner] =
        std::max(relayed[owner], near ? prices.fan_out(tail, inside - 1, 0)
                                      : prices.fan_out(tail, inside, (between - 1) * (inside + 1), queued));
    // The owner has it already: a helper beside it may have only strangers left.
    const double second = std::max(inside > (near ? 1 : 0) ? prices.link(true).alpha_seconds : 0.0,
                                   between > (near ? 0 : 1) ? prices.link(false).alpha_seconds : 0.0);
    way.latency = std::max(way.latency, prices.alpha(piece.owner, piece.holder) + second);
  }
  for (std::size_t owner = 0; owner < relayed.size(); ++owner) {
    if (relayed[owner] < 0) continue;
    // Helpers on the owner's node send over the same link meanwhile.
    const double out = prices.fan_out(out_inside[owner], 1, 0) + prices.fan_out(out_between[owner], 0, 1);
    const double node = prices.node_link(out_of_node[static_cast<std::size_t>(prices.places.node[owner])]);
    way.bytes = std::max(way.bytes, std::max(out, node) + relayed[owner]);
  }
  return way;
}

/// Follows the largest subtree of each owner: what a rank sends to all of its children arrives together.
Way tree_way(const Prices& prices, CollectiveAlgorithm algorithm) {
  const auto tree = detail::make_broadcast_tree(algorithm, prices.topology);
  const std::vector<std::int64_t> sizes = detail::shard_sizes(prices.table);
  Way longest;
  for (int owner = 0; owner < prices.world_size(); ++owner) {
    const std::int64_t own = sizes[static_cast<std::size_t>(owner)];
    if (own == 0) continue;
    Way way;
    int rank = owner;
    double all = 0;      // of an element, hop by hop
    double slowest = 0;  // of them
    for (auto children = tree->children({owner, owner}, rank); !children.empty();
         children = tree->children({owner, owner}, rank)) {
      double latency = 0;
      double hop = 0;
      for (const int child : children) {
        hop += prices.hop(1, rank, child);
        latency = std::max(latency, prices.alpha(rank, child));
      }
      way.latency += latency;
      all += hop;
      slowest = std::max(slowest, hop);
      rank = children.front();
    }
    way.bytes = prices.pipelined(own, all, slowest);
    longest.longest(way);
  }
  return longest;
}

Way way_of(const Prices& prices, CollectiveAlgorithm algorithm, const std::vector<TransferCounts>& counts) {
  switch (algorithm) {
    case CollectiveAlgorithm::direct:
      return {prices.alpha(), 0};
    case CollectiveAlgorithm::scatter:
      return scatter_way(prices, detail::deal(prices.table, detail::relay_shares(prices.table)), counts);
    case CollectiveAlgorithm::chain:
    case CollectiveAlgorithm::padded:
      return chain_way(prices, algorithm == CollectiveAlgorithm::padded);
    default:
      return tree_way(prices, algorithm);
  }
}

}  // namespace

double predicted_unshard_seconds(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                 const CollectiveProfile& profile, std::optional<std::int64_t> asked) {
  const std::int64_t block_elements = asked.value_or(message_elements(topology));
  const std::vector<TransferCounts> counts = unshard_counts(algorithm, table, topology, block_elements);
  require_links(profile, topology);
  if (topology.world_size() == 1 || table.size == 0) return 0;
  const Prices prices(table, topology, profile, block_elements);
  const bool to_neighbours = algorithm == CollectiveAlgorithm::chain || algorithm == CollectiveAlgorithm::padded ||
                             algorithm == CollectiveAlgorithm::hierarchical;
  const Way way = way_of(prices, algorithm, counts);
  return correction_of(profile, CollectiveOperation::unshard, algorithm, table) *
         (way.latency + std::max(prices.drain(counts, !to_neighbours), way.bytes));
}

}  // namespace matrixfsdp
