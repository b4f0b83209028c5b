#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>

// Schedules are played by the rules of messages alone: what a rank sends it must have, both sides of a pair must agree
// on every message and its order, and in the end everybody has everything, each element brought once.
namespace matrixfsdp {
namespace {

constexpr std::array algorithms{CollectiveAlgorithm::direct,       CollectiveAlgorithm::chain,
                                CollectiveAlgorithm::scatter,      CollectiveAlgorithm::tree,
                                CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::padded};

/// Owners by their numbers of elements, and a tail cut evenly.
SegmentTable table_of(const std::vector<std::int64_t>& owned, std::int64_t tail) {
  const auto ranks = static_cast<std::int64_t>(owned.size());
  SegmentTable table;
  table.size = std::accumulate(owned.begin(), owned.end(), tail);
  std::int64_t position = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t size = owned[static_cast<std::size_t>(rank)];
    const std::int64_t tails = table.size - tail;
    table.intervals.push_back({Interval{position, position + size},
                               Interval{tails + tail * rank / ranks, tails + tail * (rank + 1) / ranks}});
    position += size;
  }
  return table;
}

std::vector<TransferSchedule> all_ranks(CollectiveAlgorithm algorithm, const SegmentTable& table,
                                        const Topology& topology, std::int64_t block) {
  std::vector<TransferSchedule> schedules;
  for (int rank = 0; rank < topology.world_size(); ++rank)
    schedules.push_back(unshard_schedule(algorithm, table, topology, rank, block));
  return schedules;
}

/// Plays all schedules; returns the number of rounds in which every queue sent at most one message, or what went wrong.
class Game {
 public:
  Game(const SegmentTable& table, std::vector<TransferSchedule> schedules) : schedules_(std::move(schedules)) {
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      times_.emplace_back(static_cast<std::size_t>(table.size), 0);
      for (const Interval& own : table.intervals[rank]) {
        for (std::int64_t i = own.begin; i < own.end; ++i)
          times_[rank][static_cast<std::size_t>(i)] = 1;
      }
      std::int64_t receives = 0;
      for (const PeerTransfers& from : schedules_[rank].receives) {
        first_[{rank, from.peer}] = receives;
        receives += static_cast<std::int64_t>(from.blocks.size());
      }
      done_.emplace_back(static_cast<std::size_t>(receives), false);
    }
  }

  std::string play() {
    while (round())
      ++rounds_;
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      for (const bool done : done_[rank]) {
        if (!done) return fmt::format("rank {} waits for ever", rank);
      }
      for (const PeerTransfers& to : schedules_[rank].sends) {
        if (next_[{rank, to.peer}] != to.blocks.size()) return fmt::format("rank {} sends what nobody takes", rank);
      }
      for (const int times : times_[rank]) {
        if (times != 1) return fmt::format("rank {} has an element {} times", rank, times);
      }
    }
    return wrong_;
  }

  [[nodiscard]] int rounds() const { return rounds_; }

 private:
  using Pair = std::pair<std::size_t, int>;

  bool round() {
    std::vector<std::pair<std::size_t, const PeerTransfers*>> ready;
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      for (const PeerTransfers& to : schedules_[rank].sends) {
        const std::size_t next = next_[{rank, to.peer}];
        if (next == to.blocks.size()) continue;
        const std::int64_t after = to.blocks[next].after;
        if (after < 0 || done_[rank][static_cast<std::size_t>(after)]) ready.emplace_back(rank, &to);
      }
    }
    for (const auto& [rank, to] : ready)
      deliver(rank, *to);
    return !ready.empty() && wrong_.empty();
  }

  void deliver(std::size_t rank, const PeerTransfers& to) {
    const std::size_t message = next_[{rank, to.peer}]++;
    const BlockTransfer& sent = to.blocks[message];
    const auto peer = static_cast<std::size_t>(to.peer);
    const PeerTransfers* expected = nullptr;
    for (const PeerTransfers& from : schedules_[peer].receives) {
      if (from.peer == static_cast<int>(rank)) expected = &from;
    }
    if (expected == nullptr || message >= expected->blocks.size() ||
        !(expected->blocks[message].elements == sent.elements) || expected->blocks[message].padding != sent.padding) {
      wrong_ = fmt::format("ranks {} and {} do not agree on message {}", rank, peer, message);
      return;
    }
    for (std::int64_t i = sent.elements.begin; i < sent.elements.end; ++i) {
      if (times_[rank][static_cast<std::size_t>(i)] == 0) wrong_ = fmt::format("rank {} sends what it has not", rank);
      ++times_[peer][static_cast<std::size_t>(i)];
    }
    done_[peer][static_cast<std::size_t>(first_[{peer, static_cast<int>(rank)}]) + message] = true;
  }

  std::vector<TransferSchedule> schedules_;
  std::vector<std::vector<int>> times_;  // by rank and element
  std::vector<std::vector<bool>> done_;  // by rank and number of the receive
  std::map<Pair, std::int64_t> first_;   // number of a rank's first receive from a peer
  std::map<Pair, std::size_t> next_;     // message of a rank to a peer
  std::string wrong_;
  int rounds_ = 0;
};

std::vector<SegmentTable> tables(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> one(count, 0);
  one[count / 2] = 97;
  std::vector<std::int64_t> uneven;
  for (std::size_t i = 0; i < count; ++i)
    uneven.push_back(static_cast<std::int64_t>((i * 37) % 23));
  return {table_of(std::vector<std::int64_t>(count, 0), 0),
          table_of(one, 0),
          table_of(one, 13),
          table_of(uneven, 5),
          table_of(std::vector<std::int64_t>(count, 12), 0),
          even_table(ranks - 1, ranks),
          even_table(1, ranks)};
}

std::vector<Topology> topologies(int ranks) {
  Topology in_turn;
  for (int rank = 0; rank < ranks; ++rank)
    in_turn.node.push_back(7 - rank % 3);
  return {make_topology(ranks, ranks), make_topology(ranks, 1), make_topology(ranks, 2), make_topology(ranks, 3),
          in_turn};
}

// CASES 1, 3, 44: for every table, empty ranks and odd W too.
TEST(PlanUnshard, every_schedule_brings_every_element_once_to_every_rank) {
  for (const CollectiveAlgorithm algorithm : algorithms) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
      for (const SegmentTable& table : tables(ranks)) {
        for (const Topology& topology : topologies(ranks)) {
          for (const std::int64_t block : {1, 5, 1000}) {
            EXPECT_EQ(Game(table, all_ranks(algorithm, table, topology, block)).play(), "")
                << name_of(algorithm) << ", " << ranks << " ranks, " << table.size << " elements, blocks of " << block;
          }
        }
      }
    }
  }
}

// CASES 3: nothing is sent twice, and nothing that is not there, but by padded, which pads.
TEST(PlanUnshard, all_ranks_together_send_each_element_to_each_other_rank_once) {
  for (const CollectiveAlgorithm algorithm : algorithms) {
    for (const SegmentTable& table : tables(5)) {
      const Topology topology = make_topology(5, 2);
      std::int64_t sent = 0;
      std::int64_t longest = 0;
      for (int rank = 0; rank < 5; ++rank) {
        const auto schedule = unshard_schedule(algorithm, table, topology, rank, 4);
        sent += counts_of(schedule, topology, rank).sent;
        longest = std::max(longest, table.shard_size(rank));
      }
      EXPECT_EQ(sent, 4 * (algorithm == CollectiveAlgorithm::padded ? 5 * longest : table.size)) << name_of(algorithm);
    }
  }
}

// The cost of the chain is P, whoever owns it: no rank sends or receives more than P and one block.
TEST(PlanUnshard, chain_costs_the_same_whatever_the_balance) {
  for (const SegmentTable& table : tables(8)) {
    const Topology topology = make_topology(8, 1);
    for (int rank = 0; rank < 8; ++rank) {
      const TransferCounts counts =
          counts_of(unshard_schedule(CollectiveAlgorithm::chain, table, topology, rank, 4), topology, rank);
      EXPECT_LE(counts.sent, table.size);
      EXPECT_EQ(counts.received, table.size - table.shard_size(rank));
    }
  }
}

// Blocks of all owners move at the same time: the time is that of the busiest link, and W - 2 hops to fill the
// pipeline.
TEST(PlanUnshard, chain_keeps_every_link_busy) {
  const Topology topology = make_topology(8, 1);
  for (const SegmentTable& table :
       {table_of({800, 0, 0, 0, 0, 0, 0, 0}, 0), table_of(std::vector<std::int64_t>(8, 100), 0),
        table_of({300, 200, 100, 100, 50, 30, 20, 0}, 0)}) {
    Game game(table, all_ranks(CollectiveAlgorithm::chain, table, topology, 1));
    EXPECT_EQ(game.play(), "");
    EXPECT_LE(game.rounds(), 806);
  }
}

// The heaviest sender of `scatter` sends as little as any two-hop way allows: with one owner P, evenly owned P (W-1)/W.
TEST(PlanUnshard, scatter_levels_what_ranks_send) {
  const Topology topology = make_topology(8, 1);
  const auto most_sent = [&topology](const SegmentTable& table) {
    std::int64_t most = 0;
    for (int rank = 0; rank < 8; ++rank) {
      const auto schedule = unshard_schedule(CollectiveAlgorithm::scatter, table, topology, rank, 10);
      most = std::max(most, counts_of(schedule, topology, rank).sent);
    }
    return most;
  };
  EXPECT_EQ(most_sent(table_of({0, 0, 700, 0, 0, 0, 0, 0}, 0)), 700);
  EXPECT_EQ(most_sent(table_of(std::vector<std::int64_t>(8, 100), 0)), 700);
  EXPECT_LE(most_sent(table_of({300, 200, 100, 100, 50, 30, 20, 0}, 0)), 710);
}

TEST(PlanUnshard, tree_takes_a_logarithm_of_hops) {
  const SegmentTable table = table_of({0, 0, 0, 0, 0, 9, 0, 0}, 0);
  Game game(table, all_ranks(CollectiveAlgorithm::tree, table, make_topology(8, 1), 100));
  EXPECT_EQ(game.play(), "");
  EXPECT_EQ(game.rounds(), 3);
}

// 4 nodes of 2 ranks, in rank order or not: what a node does not own comes in once, and goes out once at most.
TEST(PlanUnshard, hierarchical_sends_each_element_over_each_link_once) {
  Topology in_turn;
  for (int rank = 0; rank < 8; ++rank)
    in_turn.node.push_back(rank % 4);
  for (const Topology& topology : {make_topology(8, 2), in_turn}) {
    for (const SegmentTable& table : tables(8)) {
      std::map<int, TransferCounts> of_node;
      std::map<int, std::int64_t> owned;
      for (int rank = 0; rank < 8; ++rank) {
        const auto schedule = unshard_schedule(CollectiveAlgorithm::hierarchical, table, topology, rank, 7);
        const TransferCounts counts = counts_of(schedule, topology, rank);
        const int node = topology.node[static_cast<std::size_t>(rank)];
        of_node[node].sent_between_nodes += counts.sent_between_nodes;
        of_node[node].received_between_nodes += counts.received_between_nodes;
        owned[node] += table.shard_size(rank);
      }
      for (const auto& [node, counts] : of_node) {
        EXPECT_EQ(counts.received_between_nodes, table.size - owned[node]);
        EXPECT_LE(counts.sent_between_nodes, table.size);
      }
    }
  }
}

TEST(PlanUnshard, padded_pads_to_the_longest_shard) {
  const SegmentTable table = table_of({10, 0, 3}, 0);
  const Topology topology = make_topology(3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    const auto schedule = unshard_schedule(CollectiveAlgorithm::padded, table, topology, rank, 4);
    EXPECT_EQ(counts_of(schedule, topology, rank).sent, 2 * 10);
    EXPECT_EQ(counts_of(schedule, topology, rank).received, 2 * 10);
  }
}

// CASES 43: counts are 64-bit.
TEST(PlanUnshard, sizes_beyond_32_bits) {
  const std::int64_t huge = std::int64_t{1} << 40;
  const SegmentTable table = table_of({huge, 0, 5, 0}, 0);
  const Topology topology = make_topology(4, 1);
  for (const CollectiveAlgorithm algorithm : algorithms) {
    std::int64_t received = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const auto schedule = unshard_schedule(algorithm, table, topology, rank, std::int64_t{1} << 36);
      received += counts_of(schedule, topology, rank).received;
    }
    EXPECT_EQ(received, 3 * (algorithm == CollectiveAlgorithm::padded ? 4 * huge : huge + 5)) << name_of(algorithm);
  }
}

TEST(PlanUnshard, bad_input_is_refused) {
  const SegmentTable table = even_table(10, 2);
  const Topology two = make_topology(2, 1);
  EXPECT_THROW(unshard_schedule(CollectiveAlgorithm::allgatherv, table, two, 0), ContractError);
  EXPECT_THROW(unshard_schedule(CollectiveAlgorithm::chain, table, make_topology(3, 1), 0), ContractError);
  EXPECT_THROW(unshard_schedule(CollectiveAlgorithm::chain, table, two, 2), ContractError);
  EXPECT_THROW(unshard_schedule(CollectiveAlgorithm::chain, table, two, 0, 0), ContractError);
  EXPECT_THROW(make_topology(0, 1), ContractError);
  EXPECT_THROW(make_topology(1, 0), ContractError);
  EXPECT_THROW(parse_collective("ring"), InputError);
  for (const CollectiveAlgorithm algorithm : algorithms)
    EXPECT_EQ(parse_collective(name_of(algorithm)), algorithm);
}

}  // namespace
}  // namespace matrixfsdp
