#include "plan/collectives/broadcast_tree.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::detail {
namespace {

/// Ranks in a circle.
class Ring {
 public:
  explicit Ring(std::vector<int> ranks) : ranks_(std::move(ranks)), positions_(ranks_.size()) {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      positions_[static_cast<std::size_t>(ranks_[i])] = static_cast<int>(i);
  }

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// Steps from `from` onwards to `to`: 0 to size - 1.
  [[nodiscard]] int distance(int from, int to) const {
    return (positions_[static_cast<std::size_t>(to)] - positions_[static_cast<std::size_t>(from)] + size()) % size();
  }
  [[nodiscard]] int after(int rank, int steps) const {
    return ranks_[static_cast<std::size_t>((positions_[static_cast<std::size_t>(rank)] + steps) % size())];
  }

 private:
  std::vector<int> ranks_;
  std::vector<int> positions_;  // by rank
};

class Chain final : public BroadcastTree {
 public:
  explicit Chain(const Topology& topology) : ring_(ranks_by_node(topology)) {}

  [[nodiscard]] int depth(const Route& route, int rank) const override { return ring_.distance(route.owner, rank); }
  [[nodiscard]] int parent(const Route& /*route*/, int rank) const override {
    return ring_.after(rank, ring_.size() - 1);
  }
  [[nodiscard]] std::vector<int> children(const Route& route, int rank) const override {
    const int next = ring_.after(rank, 1);
    return next == route.owner ? std::vector<int>{} : std::vector<int>{next};
  }

 private:
  Ring ring_;
};

/// From the owner to the relay, and from there to all others.
class Star final : public BroadcastTree {
 public:
  explicit Star(const Topology& topology) : ring_(ranks_by_node(topology)) {}

  [[nodiscard]] int depth(const Route& route, int rank) const override {
    if (rank == route.owner) return 0;
    return rank == route.relay || route.relay == route.owner ? 1 : 2;
  }
  [[nodiscard]] int parent(const Route& route, int rank) const override {
    return rank == route.relay ? route.owner : route.relay;
  }
  [[nodiscard]] std::vector<int> children(const Route& route, int rank) const override {
    if (rank == route.owner && rank != route.relay) return {route.relay};
    std::vector<int> others;
    if (rank != route.relay) return others;
    for (int step = 1; step < ring_.size(); ++step) {
      const int other = ring_.after(rank, step);
      if (other != route.owner) others.push_back(other);
    }
    return others;
  }

 private:
  Ring ring_;
};

/// Positions relative to the owner: the parent has the lowest set bit cleared.
class BinomialTree final : public BroadcastTree {
 public:
  explicit BinomialTree(const Topology& topology) : ring_(ranks_by_node(topology)) {}

  [[nodiscard]] int depth(const Route& route, int rank) const override {
    return std::popcount(static_cast<unsigned>(ring_.distance(route.owner, rank)));
  }
  [[nodiscard]] int parent(const Route& route, int rank) const override {
    const int position = ring_.distance(route.owner, rank);
    return ring_.after(route.owner, position & (position - 1));
  }
  [[nodiscard]] std::vector<int> children(const Route& route, int rank) const override {
    const int position = ring_.distance(route.owner, rank);
    std::vector<int> found;
    for (int bit = 1; bit < ring_.size() && (position & bit) == 0; bit *= 2) {
      if (position + bit < ring_.size()) found.push_back(ring_.after(route.owner, position + bit));
    }
    std::reverse(found.begin(), found.end());  // the largest subtree first
    return found;
  }

 private:
  Ring ring_;
};

/// A chain of nodes. In each node the rank that stands where the owner stands in its own receives the block from the
/// node before, and gives it to the next node and to its neighbours.
class NodeChain final : public BroadcastTree {
 public:
  explicit NodeChain(const Topology& topology) : place_(topology.node.size()), node_(topology.node.size()) {
    for (const int rank : ranks_by_node(topology)) {
      if (members_.empty() || !topology.same_node(members_.back().front(), rank)) members_.emplace_back();
      node_[static_cast<std::size_t>(rank)] = static_cast<int>(members_.size()) - 1;
      place_[static_cast<std::size_t>(rank)] = members_.back().size();
      members_.back().push_back(rank);
    }
  }

  [[nodiscard]] int depth(const Route& route, int rank) const override {
    const int node = node_of(rank);
    return distance(node_of(route.owner), node) + (rank == entry(route, node) ? 0 : 1);
  }
  [[nodiscard]] int parent(const Route& route, int rank) const override {
    const int node = node_of(rank);
    if (rank != entry(route, node)) return entry(route, node);
    return entry(route, (node + nodes() - 1) % nodes());
  }
  [[nodiscard]] std::vector<int> children(const Route& route, int rank) const override {
    const int node = node_of(rank);
    std::vector<int> found;
    if (rank != entry(route, node)) return found;
    const int next = (node + 1) % nodes();
    if (next != node_of(route.owner)) found.push_back(entry(route, next));
    for (const int neighbour : members_[static_cast<std::size_t>(node)]) {
      if (neighbour != rank) found.push_back(neighbour);
    }
    return found;
  }

 private:
  [[nodiscard]] int nodes() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int node_of(int rank) const { return node_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int distance(int from, int to) const { return (to - from + nodes()) % nodes(); }
  [[nodiscard]] int entry(const Route& route, int node) const {
    const auto& members = members_[static_cast<std::size_t>(node)];
    if (node == node_of(route.owner)) return route.owner;
    return members[place_[static_cast<std::size_t>(route.owner)] % members.size()];
  }

  std::vector<std::vector<int>> members_;  // ranks of each node
  std::vector<std::size_t> place_;         // of each rank in its node
  std::vector<int> node_;                  // of each rank, counted from 0
};

}  // namespace

std::vector<int> ranks_by_node(const Topology& topology) {
  std::vector<int> ranks(topology.node.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> first(topology.node.size());  // rank of the same node
  std::unordered_map<int, int> first_of;
  for (std::size_t rank = 0; rank < first.size(); ++rank)
    first[rank] = first_of.try_emplace(topology.node[rank], static_cast<int>(rank)).first->second;
  std::stable_sort(ranks.begin(), ranks.end(), [&first](int a, int b) {
    return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)];
  });
  return ranks;
}

std::unique_ptr<BroadcastTree> make_broadcast_tree(CollectiveAlgorithm algorithm, const Topology& topology) {
  switch (algorithm) {
    case CollectiveAlgorithm::direct:
    case CollectiveAlgorithm::scatter:
      return std::make_unique<Star>(topology);
    case CollectiveAlgorithm::chain:
    case CollectiveAlgorithm::padded:
      return std::make_unique<Chain>(topology);
    case CollectiveAlgorithm::tree:
      return std::make_unique<BinomialTree>(topology);
    case CollectiveAlgorithm::hierarchical:
      return std::make_unique<NodeChain>(topology);
    case CollectiveAlgorithm::allgatherv:
      break;
  }
  throw ContractError("schedule of allgatherv: expected an algorithm of ours, the MPI library has its own");
}

}  // namespace matrixfsdp::detail
