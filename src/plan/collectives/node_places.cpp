#include "plan/collectives/node_places.hpp"

#include "plan/collectives/broadcast_tree.hpp"

namespace matrixfsdp::detail {

NodePlaces::NodePlaces(const Topology& topology) : order(ranks_by_node(topology)), node(topology.node.size()) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !topology.same_node(order[i - 1], order[i])) ranks_on.push_back(0);
    node[static_cast<std::size_t>(order[i])] = nodes() - 1;
    ++ranks_on.back();
  }
}

}  // namespace matrixfsdp::detail
