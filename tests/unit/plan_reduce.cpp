#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "support/messages.hpp"
#include "unit/plan_tables.hpp"

namespace matrixfsdp {
namespace {

using test::owners;

/// Elements that `rank` sends and receives in a step of `passes` passes.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};
Traffic traffic(const Reduce& reduce, int rank, std::int64_t passes) {
  const auto others = static_cast<std::int64_t>(reduce.table.intervals.size()) - 1;
  Traffic of;
  for (const auto& blocks : reduce.blocks) {
    for (const Piece& block : blocks) {
      const std::int64_t size = block.elements.size();
      if (block.holder == rank)
        of.received += passes * size * others;
      else
        of.sent += passes * size;
      if (block.owner == block.holder) continue;
      if (block.holder == rank) of.sent += size;
      if (block.owner == rank) of.received += size;
    }
  }
  return of;
}

std::int64_t most_received(const std::vector<std::int64_t>& owned, std::int64_t passes) {
  const Reduce reduce = prepare_reduce(CollectiveAlgorithm::scatter, owners(owned), passes);
  std::int64_t most = 0;
  for (int rank = 0; rank < static_cast<int>(owned.size()); ++rank)
    most = std::max(most, traffic(reduce, rank, passes).received);
  return most;
}

TEST(PlanReduce, every_element_has_one_holder) {
  for (const auto& owned : {std::vector<std::int64_t>{0, 0, 0}, {1, 0, 0}, {7, 3, 0, 90000}, {5}, {2, 100000}}) {
    using enum CollectiveAlgorithm;
    for (const CollectiveAlgorithm algorithm : {direct, scatter, tree, hierarchical}) {
      for (const std::int64_t passes : {1, 2, 9}) {
        const Reduce reduce = prepare_reduce(algorithm, owners(owned), passes);
        std::vector<int> times(static_cast<std::size_t>(reduce.table.size), 0);
        for (int holder = 0; holder < static_cast<int>(owned.size()); ++holder) {
          for (const Piece& block : reduce.held_by(holder)) {
            EXPECT_LE(block.elements.size(), exchange_block);
            EXPECT_GT(block.elements.size(), 0);
            const Interval owner = reduce.table.intervals[static_cast<std::size_t>(block.owner)][0];
            EXPECT_EQ(intersect(block.elements, owner), block.elements);
            for (std::int64_t i = block.elements.begin; i < block.elements.end; ++i)
              ++times[static_cast<std::size_t>(i)];
          }
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 1), reduce.table.size);
      }
    }
  }
}

// P = 840, W = 8: evenly owned P (W - 1) / W; one owner P, because it gets each element once, summed.
TEST(PlanReduce, what_ranks_receive_is_levelled) {
  EXPECT_EQ(most_received({105, 105, 105, 105, 105, 105, 105, 105}, 1), 735);
  EXPECT_EQ(most_received({840, 0, 0, 0, 0, 0, 0, 0}, 1), 840);
  EXPECT_EQ(traffic(prepare_reduce(CollectiveAlgorithm::direct, owners({840, 0, 0, 0, 0, 0, 0, 0})), 0, 1).received,
            7 * 840);
  std::vector<std::int64_t> two(8, 0);
  two[0] = two[1] = 420;
  EXPECT_LE(most_received(two, 1), 840);
  EXPECT_LE(most_received({840, 0, 0, 0, 0, 0, 0, 0}, 1000), 1000 * 840 * 7 / 8 + 7000)
      << "many passes: the even cut, whoever owns";
}

// No rank sends or receives more than P (1 + 1/W) when no rank owns more than half.
TEST(PlanReduce, no_rank_moves_much_more_than_the_unit) {
  for (const auto& owned : {std::vector<std::int64_t>{400, 400, 0, 0, 0},
                            {400, 100, 100, 100, 100},
                            {300, 300, 200, 0, 0},
                            {160, 160, 160, 160, 160},
                            {400, 399, 1, 0, 0}}) {
    const Reduce reduce = prepare_reduce(CollectiveAlgorithm::scatter, owners(owned));
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_LE(traffic(reduce, rank, 1).sent, 800 + 160);
      EXPECT_LE(traffic(reduce, rank, 1).received, 800 + 160);
    }
  }
}

/// What all ranks send and receive in a step of one pass.
std::vector<TransferCounts> counts_by(CollectiveAlgorithm algorithm, const SegmentTable& table,
                                      const Topology& topology, std::int64_t sum_group = 1) {
  return reduce_counts(prepare_reduce(algorithm, table, topology, {1, DType::float32, sum_group}), topology);
}

// No rank sends more than P; it receives P and its own elements: rank 0 nothing but these.
TEST(PlanReduce, by_chain_every_rank_sends_the_unit_at_most) {
  for (const auto& owned : {std::vector<std::int64_t>{800, 0, 0, 0, 0},
                            {0, 0, 800, 0, 0},
                            {160, 160, 160, 160, 160},
                            {400, 399, 0, 0, 1}}) {
    const auto counts = counts_by(CollectiveAlgorithm::chain, owners(owned), make_topology(5, 1));
    for (std::size_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(counts[rank].sent, rank < 4 ? 800 : 800 - owned[4]);
      EXPECT_EQ(counts[rank].received, (rank > 0 ? 800 : 0) + (rank < 4 ? owned[rank] : 0));
    }
  }
}

// Every pass brings sums to their owners, and takes them to the first rank before the next.
TEST(PlanReduce, by_chain_owners_keep_sums_between_passes) {
  const Topology topology = make_topology(3, 1);
  const Reduce reduce =
      prepare_reduce(CollectiveAlgorithm::chain, owners({10, 60, 30}), topology, {3, DType::float32, 1});
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(running_sum_elements(reduce, rank), 0);
  const auto first = reduce_counts(reduce, topology, 0);
  EXPECT_EQ(first[1].sent, 100);
  const auto second = reduce_counts(reduce, topology, 1);
  EXPECT_EQ(second[0].received, 10 + 60 + 30) << "of the others' sums, and the own ones at last";
  EXPECT_EQ(second[1].sent, 100 + 60);
  EXPECT_EQ(second[2].sent, 100 - 30 + 30);
}

// 4 nodes of 2 ranks: every node sends each byte once, whether a group of the sum is a rank, a node, two or all; a node
// that completes a group of several has two sums from others.
TEST(PlanReduce, by_hierarchical_every_byte_goes_once_over_every_link) {
  const Topology topology = make_topology(8, 2);
  for (const auto& owned : {std::vector<std::int64_t>{100, 100, 100, 100, 100, 100, 100, 100},
                            {0, 0, 0, 800, 0, 0, 0, 0},
                            {399, 0, 0, 1, 0, 0, 0, 400}}) {
    for (const std::int64_t group : {1, 2, 4, 8}) {
      const auto counts = counts_by(CollectiveAlgorithm::hierarchical, owners(owned), topology, group);
      for (std::size_t node = 0; node < 4; ++node) {
        const TransferCounts& even = counts[2 * node];
        const TransferCounts& odd = counts[2 * node + 1];
        const std::int64_t of_node = owned[2 * node] + owned[2 * node + 1];
        EXPECT_EQ(even.sent_between_nodes + odd.sent_between_nodes, node < 3 ? 800 : 800 - of_node)
            << "node " << node << ", groups of " << group;
        const std::vector<std::int64_t> of_pairs{0, 1, 0, 2};  // groups of four ranks
        const std::int64_t sums = group == 4 ? of_pairs[node] : (node > 0 ? 1 : 0);
        EXPECT_EQ(even.received_between_nodes + odd.received_between_nodes, sums * 800 + (node < 3 ? of_node : 0))
            << "node " << node << ", groups of " << group;
      }
    }
  }
}

// Three ranks complete a group of two and begin another: both go on, by themselves.
TEST(PlanReduce, a_group_that_ends_within_a_node_costs_another_sum) {
  const auto counts = counts_by(CollectiveAlgorithm::hierarchical, even_table(600, 6), make_topology(6, 3), 2);
  std::int64_t sent = 0;
  for (std::size_t rank = 0; rank < 3; ++rank)
    sent += counts[rank].sent_between_nodes;
  EXPECT_EQ(sent, 2 * 600);
}

// Every rank but the holder sends one message up, and one comes down to it.
TEST(PlanReduce, by_tree_few_messages) {
  const auto counts =
      counts_by(CollectiveAlgorithm::tree, owners({10, 10, 10, 10, 10, 11, 10, 10}), make_topology(8, 1));
  std::int64_t messages = 0;
  for (const TransferCounts& of : counts)
    messages += of.messages;
  EXPECT_EQ(messages, 7 + 7);
  EXPECT_EQ(counts[5].messages, 3) << "rank 5, which owns most, sends sums to three children";
  EXPECT_EQ(counts[5].received, 7 * 81);
  const auto direct = counts_by(CollectiveAlgorithm::direct, even_table(81, 8), make_topology(8, 1));
  EXPECT_EQ(direct[5].messages, 7);
}

// One that has none is 0 - 1 - ... - W - 1 in runs; the odd ranks of one node beside the even ones of another are
// alone.
TEST(PlanReduce, runs_are_neighbours_on_a_node) {
  const auto sizes = [](const Topology& topology, int members, CollectiveAlgorithm algorithm) {
    std::vector<int> found;
    for (const RankGroup& run : prepare_reduce(algorithm, even_table(10, members), topology).runs)
      found.push_back(run.size);
    return found;
  };
  using enum CollectiveAlgorithm;
  EXPECT_EQ(sizes(make_topology(6, 4), 6, hierarchical), (std::vector<int>{4, 2}));
  EXPECT_EQ(sizes({{7, 7, 3, 7}}, 4, hierarchical), (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(sizes(make_topology(6, 4), 3, hierarchical), (std::vector<int>{4, 2})) << "shard groups leave no trace";
  EXPECT_EQ(sizes(make_topology(6, 4), 3, scatter), (std::vector<int>{3, 3}));
  EXPECT_EQ(sizes(make_topology(3, 3), 3, chain), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(sizes(make_topology(6, 4), 3, tree), (std::vector<int>{6}));
}

// Every rank of a run has an even part, whatever others own.
TEST(PlanReduce, a_node_shares_the_sums_evenly) {
  const Topology topology = make_topology(7, 3);
  const Reduce reduce = prepare_reduce(CollectiveAlgorithm::hierarchical, owners({0, 0, 99999, 0, 1, 0, 0}), topology);
  for (int rank = 0; rank < 7; ++rank) {
    const int size = rank < 6 ? 3 : 1;
    const Interval chunk = fold_chunk(100000, rank % 3, size);
    std::int64_t at = chunk.begin;
    for (const Piece& block : reduce.held_by(rank)) {
      EXPECT_EQ(block.elements.begin, at);
      at = block.elements.end;
    }
    EXPECT_EQ(at, chunk.end) << rank;
  }
}

TEST(PlanReduce, what_a_sum_consists_of) {
  for (const std::int64_t group : {1, 2, 5}) {
    EXPECT_EQ(fold_state(0, group).parts(), 0);
    EXPECT_EQ(fold_state(group, group).parts(), 1);
    EXPECT_EQ(fold_state(group + 1, group).parts(), group == 1 ? 1 : 2);
  }
  EXPECT_FALSE(fold_state(1, 2).sum);
  EXPECT_TRUE(fold_state(1, 2).open);
}

TEST(PlanReduce, bad_input_is_refused) {
  for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::padded, CollectiveAlgorithm::allgatherv}) {
    EXPECT_TRUE(test::mentions(
        test::message_of<ContractError>([&] {
          prepare_reduce(algorithm, owners({1, 2}));
        }),
        {std::string(name_of(algorithm)), "which only unshards", "direct, chain, scatter, tree or hierarchical"}));
  }
  const auto in_groups = [](std::int64_t passes, std::int64_t group) {
    prepare_reduce(CollectiveAlgorithm::chain, owners({1, 2, 3}), make_topology(3, 1), {passes, DType::float32, group});
  };
  EXPECT_EQ(test::message_of<InputError>([&] { in_groups(2, 4); }),
            "sum group of 4 micro-batches: expected a divisor of those of a step, 2 passes x 3 ranks = 6");
  EXPECT_THROW(in_groups(2, 0), ContractError);
  EXPECT_THROW(prepare_reduce(CollectiveAlgorithm::chain, owners({1, 2, 3}), make_topology(4, 1)), ContractError);
  EXPECT_THROW(prepare_reduce(CollectiveAlgorithm::scatter, owners({1, 2}), 0), ContractError);
  SegmentTable gap = owners({1, 2});
  ++gap.size;
  EXPECT_THROW(prepare_reduce(CollectiveAlgorithm::scatter, gap), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
