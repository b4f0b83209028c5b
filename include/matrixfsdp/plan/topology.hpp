#pragma once

#include <vector>

namespace matrixfsdp {

/// Which ranks share the memory of a node. What passes between nodes passes their links.
struct Topology {
  std::vector<int> node;  ///< of each rank; any numbers, the same for ranks of one node

  /// Ranks of all nodes.
  [[nodiscard]] int world_size() const { return static_cast<int>(node.size()); }
  /// Whether ranks a and b, both of the topology (unchecked), share memory.
  [[nodiscard]] bool same_node(int a, int b) const {
    return node[static_cast<std::size_t>(a)] == node[static_cast<std::size_t>(b)];
  }
};

/// Neighbouring ranks: a shard group, or part of one.
struct RankGroup {
  int first = 0;  ///< the lowest rank
  int size = 0;   ///< ranks from there on
  /// The same ranks.
  bool operator==(const RankGroup&) const = default;
};

/// The nodes of a group's ranks. Throws ContractError for a group that is not of these ranks.
Topology topology_of(const Topology& all, const RankGroup& group);

/// `world_size` ranks, `ranks_per_node` on each node in rank order. Throws ContractError unless both are at least 1.
Topology make_topology(int world_size, int ranks_per_node);

}  // namespace matrixfsdp
