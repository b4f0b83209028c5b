#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp {
namespace {

struct Named {
  CollectiveAlgorithm algorithm;
  std::string_view name;
};

constexpr std::array<Named, 7> names{{
    {CollectiveAlgorithm::direct, "direct"},
    {CollectiveAlgorithm::chain, "chain"},
    {CollectiveAlgorithm::scatter, "scatter"},
    {CollectiveAlgorithm::tree, "tree"},
    {CollectiveAlgorithm::hierarchical, "hierarchical"},
    {CollectiveAlgorithm::padded, "padded"},
    {CollectiveAlgorithm::allgatherv, "allgatherv"},
}};

}  // namespace

std::string_view name_of(CollectiveAlgorithm algorithm) {
  for (const Named& named : names) {
    if (named.algorithm == algorithm) return named.name;
  }
  throw ContractError(fmt::format("collective {}: expected one of the enumeration's", static_cast<int>(algorithm)));
}

CollectiveAlgorithm parse_collective(std::string_view name) {
  std::string known;
  for (const Named& named : names) {
    if (named.name == name) return named.algorithm;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", named.name);
  }
  throw InputError(fmt::format("collective '{}': expected one of {}", name, known));
}

Topology topology_of(const Topology& all, const RankGroup& group) {
  if (group.first < 0 || group.size < 1 || group.first + group.size > all.world_size()) {
    throw ContractError(fmt::format("ranks {} to {}: expected some of {} ranks", group.first,
                                    group.first + group.size - 1, all.world_size()));
  }
  const auto begin = all.node.begin() + group.first;
  return {{begin, begin + group.size}};
}

Topology make_topology(int world_size, int ranks_per_node) {
  if (world_size < 1 || ranks_per_node < 1) {
    throw ContractError(
        fmt::format("topology of {} ranks, {} per node: expected at least 1 of each", world_size, ranks_per_node));
  }
  Topology topology;
  for (int rank = 0; rank < world_size; ++rank)
    topology.node.push_back(rank / ranks_per_node);
  return topology;
}

std::int64_t message_elements(const Topology& topology) {
  const bool one_node =
      std::adjacent_find(topology.node.begin(), topology.node.end(), std::not_equal_to<>()) == topology.node.end();
  return one_node ? exchange_block : link_block;
}

TransferCounts counts_of(const TransferSchedule& schedule, const Topology& topology, int rank) {
  TransferCounts counts;
  for (const PeerTransfers& to : schedule.sends) {
    std::int64_t elements = 0;
    for (const BlockTransfer& block : to.blocks)
      elements += block.size();
    const auto messages = static_cast<std::int64_t>(to.blocks.size());
    counts.sent += elements;
    counts.messages += messages;
    if (topology.same_node(rank, to.peer)) continue;
    counts.sent_between_nodes += elements;
    counts.messages_between_nodes += messages;
  }
  for (const PeerTransfers& from : schedule.receives) {
    std::int64_t elements = 0;
    for (const BlockTransfer& block : from.blocks)
      elements += block.size();
    counts.received += elements;
    if (!topology.same_node(rank, from.peer)) counts.received_between_nodes += elements;
  }
  return counts;
}

}  // namespace matrixfsdp
