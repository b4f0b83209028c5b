#pragma once

#include <vector>

#include <matrixfsdp/plan/topology.hpp>

namespace matrixfsdp::detail {

/// Ranks by node, counted from 0 in the order of their first rank.
struct NodePlaces {
  explicit NodePlaces(const Topology& topology);

  [[nodiscard]] int nodes() const { return static_cast<int>(ranks_on.size()); }
  [[nodiscard]] bool same(int a, int b) const {
    return node[static_cast<std::size_t>(a)] == node[static_cast<std::size_t>(b)];
  }
  /// Ranks on the node of `rank`, itself too.
  [[nodiscard]] int neighbours(int rank) const {
    return ranks_on[static_cast<std::size_t>(node[static_cast<std::size_t>(rank)])];
  }

  std::vector<int> order;     ///< ranks node by node
  std::vector<int> node;      ///< of each rank
  std::vector<int> ranks_on;  ///< each node
};

}  // namespace matrixfsdp::detail
