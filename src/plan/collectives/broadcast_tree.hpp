#pragma once

#include <memory>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp::detail {

/// Where a block starts. `relay` is the owner, but for scatter.
struct Route {
  int owner = 0;
  int relay = 0;
};

/// The way of a block from its owner to every other rank: a tree of ranks.
class BroadcastTree {
 public:
  virtual ~BroadcastTree() = default;
  /// Hops from the owner to `rank`; 0 for the owner.
  [[nodiscard]] virtual int depth(const Route& route, int rank) const = 0;
  /// From whom `rank`, which is not the owner, has the block.
  [[nodiscard]] virtual int parent(const Route& route, int rank) const = 0;
  /// To whom `rank` sends the block, the first one first.
  [[nodiscard]] virtual std::vector<int> children(const Route& route, int rank) const = 0;
};

/// The tree of an algorithm; padded goes by the chain. `topology` must outlive it. Throws ContractError for allgatherv.
std::unique_ptr<BroadcastTree> make_broadcast_tree(CollectiveAlgorithm algorithm, const Topology& topology);

/// Ranks node by node, nodes in the order of their first rank.
std::vector<int> ranks_by_node(const Topology& topology);

}  // namespace matrixfsdp::detail
