#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include <matrixfsdp/comm/calibration.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/core/error.hpp>

#include "comm/calibration_corrections.hpp"

namespace matrixfsdp {
namespace {

using Clock = std::chrono::steady_clock;
using Group = std::vector<int>;  // ranks that gather among themselves

const OperationLabel label{"calibration of collectives", "", ""};

constexpr std::size_t largest_group = 8;      ///< enough to see contention; larger ones only take longer
constexpr std::int64_t small_elements = 256;  ///< of each rank: 1 KiB
constexpr int small_rounds = 25;
constexpr int large_rounds = 5;
/// Messages grow until one gather takes so long, or has so many elements.
constexpr double long_enough = 0.1;
constexpr std::int64_t most_elements = std::int64_t{4} << 20;
constexpr std::int64_t least_blocks = 4;  ///< of large messages

/// Ranks of each node, in order; the node with the most ranks first.
std::vector<Group> ranks_of_nodes(const Topology& topology) {
  std::map<int, std::size_t> index;
  std::vector<Group> nodes;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    const auto [found, is_new] = index.try_emplace(topology.node[static_cast<std::size_t>(rank)], nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[found->second].push_back(rank);
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const Group& a, const Group& b) { return a.size() > b.size(); });
  return nodes;
}

/// Parts of a few ranks each; no groups of one.
void add_parts(const Group& ranks, std::vector<Group>& groups) {
  if (ranks.size() < 2) return;
  const std::size_t parts = (ranks.size() + largest_group - 1) / largest_group;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto at = [&](std::size_t cut) {
      return ranks.begin() + static_cast<std::ptrdiff_t>(cut * ranks.size() / parts);
    };
    groups.emplace_back(at(part), at(part + 1));
  }
}

/// The first `places` ranks of each of the first `count` nodes: among themselves, or place by place with those of the
/// other nodes.
std::vector<Group> groups_of(const std::vector<Group>& nodes, bool inside, std::size_t count, std::size_t places) {
  std::vector<Group> groups;
  const auto end = nodes.begin() + static_cast<std::ptrdiff_t>(std::min(count, nodes.size()));
  if (inside) {
    for (auto node = nodes.begin(); node != end; ++node)
      add_parts({node->begin(), node->begin() + static_cast<std::ptrdiff_t>(std::min(places, node->size()))}, groups);
    return groups;
  }
  for (std::size_t place = 0; place < places; ++place) {
    Group across;
    for (auto node = nodes.begin(); node != end; ++node) {
      if (place < node->size()) across.push_back((*node)[place]);
    }
    add_parts(across, groups);
  }
  return groups;
}

std::size_t largest(const std::vector<Group>& groups) {
  std::size_t most = 0;
  for (const Group& group : groups)
    most = std::max(most, group.size());
  return most;
}

/// What is gathered: as much from every rank, or all from the first one of the group.
struct Load {
  std::int64_t message = 0;  ///< elements of a message, at most
  std::int64_t elements = 0;
  bool one_way = false;

  /// So small that blocks follow each other: what is on its way while a link has nothing to carry is latency.
  [[nodiscard]] std::int64_t block() const { return std::min(message, (elements + least_blocks - 1) / least_blocks); }
  [[nodiscard]] std::int64_t blocks() const { return (elements + block() - 1) / block(); }
  [[nodiscard]] SegmentTable table(int ranks) const {
    SegmentTable result = even_table(elements * ranks, ranks);
    for (std::size_t rank = 1; one_way && rank < result.intervals.size(); ++rank)
      result.intervals[rank][0] = {elements, elements};
    if (one_way) result.size = elements;
    return result;
  }
};

/// This rank's part of the gather in its group; nothing for a rank in no group.
Unshard gather_in_group(CollectiveAlgorithm algorithm, const std::vector<Group>& groups, const Load& load,
                        const Communicator& world) {
  Unshard unshard;
  unshard.algorithm = algorithm;
  unshard.table.intervals.resize(static_cast<std::size_t>(world.size()));
  for (const Group& group : groups) {
    const auto mine = std::find(group.begin(), group.end(), world.rank());
    if (mine == group.end()) continue;
    const auto size = static_cast<int>(group.size());
    const SegmentTable table = load.table(size);
    unshard.schedule = unshard_schedule(algorithm, table, make_topology(size, 1),
                                        static_cast<int>(mine - group.begin()), load.block());
    unshard.table.size = table.size;
    for (std::size_t i = 0; i < group.size(); ++i)
      unshard.table.intervals[static_cast<std::size_t>(group[i])] = table.intervals[i];
    for (auto* transfers : {&unshard.schedule.sends, &unshard.schedule.receives}) {
      for (PeerTransfers& peer : *transfers)
        peer.peer = group[static_cast<std::size_t>(peer.peer)];
    }
  }
  return unshard;
}

struct Times {
  double chain = 0;
  double direct = 0;
};

/// Runs gathers and finds how long the slowest rank took, in rounds in which two algorithms take turns. What else runs
/// on a machine only adds to the times, so that of all rounds the quick ones count. The first round makes connections
/// and touches pages.
class Stopwatch {
 public:
  Stopwatch(Communicator& world, const Topology& topology) : world_(world), topology_(topology) {}

  /// Elements of a message in this job.
  [[nodiscard]] std::int64_t message() const { return message_elements(topology_); }

  Times measure(const std::vector<Group>& groups, const Load& load, int rounds) {
    const Unshard chain = gather_in_group(CollectiveAlgorithm::chain, groups, load, world_);
    const Unshard direct = gather_in_group(CollectiveAlgorithm::direct, groups, load, world_);
    const bool pairs = largest(groups) == 2;  // each other's only neighbours: both do the same
    const Tensor<float> shard = make_zeros<float>("calibration", chain.table.shard_size(world_.rank()));
    const Tensor<float> buffer = make_zeros<float>("calibration", chain.table.size);
    std::vector<double> mine;
    for (int round = 0; round <= rounds; ++round) {
      for (const Unshard* unshard : {&chain, &direct}) {
        if (pairs && unshard == &direct) continue;
        world_.barrier(label);
        const auto begin = Clock::now();
        gather(world_, Purpose::other, *unshard, shard, buffer, label).wait();
        if (round > 0) mine.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      }
    }
    const std::vector<double> slowest = detail::slowest_of(world_, mine);
    if (pairs) return {quick_one(slowest, 0, 1), quick_one(slowest, 0, 1)};
    return {quick_one(slowest, 0, 2), quick_one(slowest, 1, 2)};
  }

 private:
  /// Of the times first, first + step, ...
  static double quick_one(const std::vector<double>& times, std::size_t first, std::size_t step) {
    std::vector<double> values;
    for (std::size_t i = first; i < times.size(); i += step)
      values.push_back(times[i]);
    std::sort(values.begin(), values.end());
    return values[values.size() / 5];
  }

  Communicator& world_;
  const Topology& topology_;
};

/// Seconds of a byte that each rank sends and receives to its neighbour, and over that where all send to all.
struct Large {
  double beta = 0;
  double contention = 1;
};

Large measure_large(Stopwatch& stopwatch, const std::vector<Group>& groups, const LinkModel& link, bool one_way) {
  const auto ranks = static_cast<std::int64_t>(largest(groups));
  Load load{stopwatch.message(), exchange_block, one_way};
  while (stopwatch.measure(groups, load, 1).chain < long_enough && 2 * ranks * load.elements <= most_elements)
    load.elements *= 2;
  const Times times = stopwatch.measure(groups, load, large_rounds);
  const auto hops = static_cast<double>(ranks - 1);
  const double messages = hops * static_cast<double>(load.blocks());
  // What messages cost besides their bytes is known from small ones; on a busy machine only roughly.
  const auto rest = [&](double seconds, double latency) {
    return std::max(seconds - latency - messages * link.message_seconds, 0.5 * seconds);
  };
  const double chain = rest(times.chain, hops * link.alpha_seconds);
  const double direct = rest(times.direct, link.alpha_seconds);
  return {chain / (hops * static_cast<double>(load.elements) * sizeof(float)), direct / chain};
}

/// One rank sends to its neighbour; then the ranks of a node do, to those of another or among themselves; then all
/// nodes at once.
std::optional<LinkModel> measure_link(Stopwatch& stopwatch, const std::vector<Group>& nodes, bool inside) {
  const std::size_t places = nodes.front().size();
  const std::vector<Group> all = groups_of(nodes, inside, nodes.size(), places);
  if (all.empty()) return std::nullopt;
  const std::vector<Group> node = groups_of(nodes, inside, inside ? 1 : 2, places);
  const std::vector<Group> pair = groups_of(nodes, inside, inside ? 1 : 2, inside ? 2 : 1);

  LinkModel link;
  const auto hops = static_cast<double>(largest(all) - 1);
  const Times small = stopwatch.measure(all, {stopwatch.message(), small_elements, false}, small_rounds);
  link.alpha_seconds = small.chain / hops;
  link.message_seconds = std::max(0.0, (small.direct - link.alpha_seconds) / hops);
  const Large of_pair = measure_large(stopwatch, pair, link, true);
  link.beta_seconds_per_byte = of_pair.beta;
  const Large of_all = measure_large(stopwatch, all, link, false);
  const Large of_node = inside && node == all     ? of_all
                        : !inside && pair == node ? of_pair
                                                  : measure_large(stopwatch, node, link, !inside);
  link.node_beta_seconds_per_byte = of_node.beta / static_cast<double>(places);
  link.all_beta_seconds_per_byte = of_all.beta / static_cast<double>(places);
  link.contention = of_all.contention;
  return link;
}

}  // namespace

CollectiveProfile calibrate(Communicator& communicator, const Topology& topology) {
  if (topology.world_size() != communicator.size()) {
    throw ContractError(fmt::format("calibration with a topology of {} ranks: the communicator has {}",
                                    topology.world_size(), communicator.size()));
  }
  const std::vector<Group> nodes = ranks_of_nodes(topology);
  Stopwatch stopwatch(communicator, topology);
  CollectiveProfile profile;
  profile.world_size = communicator.size();
  profile.nodes = static_cast<int>(nodes.size());
  profile.inside = measure_link(stopwatch, nodes, true);
  profile.between = measure_link(stopwatch, nodes, false);
  profile.corrections = detail::measure_corrections(communicator, topology, profile);
  return profile;
}

}  // namespace matrixfsdp
