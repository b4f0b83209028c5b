#include <algorithm>
#include <map>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/collectives/prices.hpp"

namespace matrixfsdp {
namespace {

using detail::Prices;

struct Way {
  double latency = 0;
  double bytes = 0;
};

/// Gradients to the root, and after the last pass sums from it, along the deepest branch.
Way tree_way(const Prices& prices, const Reduce& reduce, bool last) {
  const int ranks = reduce.world_size();
  const auto rank_at = [&](int position) { return (reduce.root + position) % ranks; };
  Way way;
  TreePosition place = tree_position(0, ranks);
  while (!place.children.empty()) {
    const int parent = rank_at(place.position);
    place = tree_position(place.children.back(), ranks);
    const int child = rank_at(place.position);
    std::int64_t owned = 0;
    for (int below = place.position; last && below < place.position + place.size; ++below)
      owned += reduce.table.shard_size(rank_at(below) % reduce.members());
    way.latency += prices.alpha(parent, child) * (owned > 0 ? 2 : 1);
    way.bytes += prices.hop(place.size * reduce.table.size, child, parent) + prices.hop(owned, parent, child);
  }
  return way;
}

/// Sums pass from run to run, block by block; groups of the sum pass at the same time.
Way run_way(const Prices& prices, const Reduce& reduce, std::int64_t pass) {
  Way way;
  std::int64_t held = 0;
  double slowest = 0;  // hop of an element
  const bool gradients_travel =
      std::any_of(reduce.runs.begin(), reduce.runs.end(), [](const RankGroup& run) { return run.size > 1; });
  if (gradients_travel) way.latency = reduce.returns_sums() ? prices.link(true).alpha_seconds : prices.alpha();
  for (const auto& blocks : reduce.blocks) {
    std::int64_t elements = 0;
    for (const Piece& block : blocks)
      elements += block.elements.size();
    held = std::max(held, elements);
  }
  std::vector<Way> reached(reduce.runs.size());  // by run: latency, and time of an element, of the longest way to it
  const auto hop = [&](std::size_t from, std::size_t to) {
    const int sender = reduce.runs[from].first;
    const int receiver = reduce.runs[to].first;
    const double element = prices.hop(1, sender, receiver);
    slowest = std::max(slowest, element);
    reached[to].latency = std::max(reached[to].latency, reached[from].latency + prices.alpha(sender, receiver));
    reached[to].bytes = std::max(reached[to].bytes, reached[from].bytes + element);
  };
  for (std::size_t i = 1; i < reduce.runs.size(); ++i) {
    if (fold_state(pass * reduce.world_size() + reduce.runs[i].first, reduce.sum_group).open) hop(i - 1, i);
    const int before = reduce.completes(i, pass) ? reduce.completing_before(i, pass) : -1;
    if (before >= 0) hop(static_cast<std::size_t>(before), i);
  }
  way.latency += reached.back().latency;
  way.bytes = prices.pipelined(held, reached.back().bytes, slowest);
  return way;
}

/// From the holders of the last run to the owners: the sums that are complete last still have to get there.
Way way_to_owners(const Prices& prices, const Reduce& reduce) {
  Way longest;
  std::map<int, double> late;  // by owner
  const RankGroup& run = reduce.runs.back();
  for (int holder = run.first; holder < run.first + run.size; ++holder) {
    std::map<int, std::int64_t> elements;
    for (const Piece& block : reduce.held_by(holder))
      elements[(reduce.replicas - 1) * reduce.members() + block.owner] += block.elements.size();
    for (const auto& [owner, count] : elements) {
      if (owner == holder) continue;
      late[owner] += prices.hop(prices.tail_of(count), holder, owner);
      longest.latency = std::max(longest.latency, prices.alpha(holder, owner));
      longest.bytes = std::max(longest.bytes, late[owner]);
    }
  }
  return longest;
}

/// What the links alone say.
double seconds_by_links(const Reduce& reduce, const Topology& topology, const CollectiveProfile& profile,
                        std::int64_t pass, const std::vector<TransferCounts>& counts) {
  const Prices prices(reduce.table, topology, profile, reduce.message);
  const bool last = pass + 1 == reduce.passes;
  if (reduce.algorithm == CollectiveAlgorithm::tree) {
    const Way way = tree_way(prices, reduce, last);
    return way.latency + std::max(prices.drain(counts, false), way.bytes);
  }
  const Way way = run_way(prices, reduce, pass);
  const Way owners = last || reduce.returns_sums() ? way_to_owners(prices, reduce) : Way{};
  const double back = reduce.returns_sums() && pass > 0 ? prices.alpha() : 0;
  return back + way.latency + owners.latency + std::max(prices.drain(counts, !reduce.returns_sums()), way.bytes) +
         owners.bytes;
}

}  // namespace

double predicted_reduce_seconds(const Reduce& reduce, const Topology& topology, const CollectiveProfile& profile,
                                std::int64_t pass) {
  const std::vector<TransferCounts> counts = reduce_counts(reduce, topology, pass);
  require_links(profile, topology);
  if (topology.world_size() == 1 || reduce.table.size == 0) return 0;
  return correction_of(profile, CollectiveOperation::reduce, reduce.algorithm, reduce.table) *
         seconds_by_links(reduce, topology, profile, pass, counts);
}

double predicted_reduce_step_seconds(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                     const CollectiveProfile& profile, const ReduceSettings& settings) {
  const Reduce reduce = prepare_reduce(algorithm, table, topology, settings);
  double seconds = predicted_reduce_seconds(reduce, topology, profile, 0);
  if (settings.passes > 1) seconds += predicted_reduce_seconds(reduce, topology, profile, settings.passes - 1);
  if (settings.passes > 2)
    seconds += static_cast<double>(settings.passes - 2) * predicted_reduce_seconds(reduce, topology, profile, 1);
  return seconds;
}

}  // namespace matrixfsdp
