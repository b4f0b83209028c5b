#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "unit/plan_tables.hpp"

/// Counts without schedules, compared with schedules and pieces, message by message.
namespace matrixfsdp {
namespace {

using test::owners;

constexpr CollectiveAlgorithm scheduled[] = {CollectiveAlgorithm::direct,       CollectiveAlgorithm::chain,
                                             CollectiveAlgorithm::scatter,      CollectiveAlgorithm::tree,
                                             CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::padded};

std::vector<SegmentTable> tables(int world_size) {
  std::vector<SegmentTable> all = {even_table(100, world_size), even_table(0, world_size)};
  std::vector<std::int64_t> one(static_cast<std::size_t>(world_size), 0);
  one[static_cast<std::size_t>(world_size / 2)] = 77;
  all.push_back(owners(one));
  const CounterRandom random(7, static_cast<std::uint64_t>(world_size));
  for (std::uint64_t draw = 0; draw < 4; ++draw) {
    std::vector<std::int64_t> owned;
    for (int rank = 0; rank < world_size; ++rank) {
      const auto index = 100 * draw + static_cast<std::uint64_t>(rank);
      owned.push_back(random.below(2 * index, 3) == 0 ? 0 : static_cast<std::int64_t>(random.below(2 * index + 1, 50)));
    }
    all.push_back(owners(owned));
  }
  // Two intervals on each rank: an owned one, and a part of the tail.
  SegmentTable tails = all.back();
  for (int rank = 0; rank < world_size; ++rank) {
    const Interval chunk = fold_chunk(31, rank, world_size);
    tails.intervals[static_cast<std::size_t>(rank)][1] = {tails.size + chunk.begin, tails.size + chunk.end};
  }
  tails.size += 31;
  all.push_back(tails);
  return all;
}

std::vector<Topology> topologies(int world_size) {
  std::vector<Topology> all = {make_topology(world_size, 1), make_topology(world_size, world_size),
                               make_topology(world_size, 2), make_topology(world_size, 3)};
  Topology mixed = make_topology(world_size, 1);
  for (int rank = 0; rank < world_size; ++rank)
    mixed.node[static_cast<std::size_t>(rank)] = rank % 3 == 1 ? 40 : 7;
  all.push_back(mixed);
  return all;
}

void expect_equal(const TransferCounts& found, const TransferCounts& expected, const std::string& what) {
  EXPECT_EQ(found.sent, expected.sent) << what;
  EXPECT_EQ(found.received, expected.received) << what;
  EXPECT_EQ(found.sent_between_nodes, expected.sent_between_nodes) << what;
  EXPECT_EQ(found.received_between_nodes, expected.received_between_nodes) << what;
  EXPECT_EQ(found.messages, expected.messages) << what;
  EXPECT_EQ(found.messages_between_nodes, expected.messages_between_nodes) << what;
}

TEST(PlanCollectiveCounts, unshard_counts_are_those_of_the_schedules) {
  for (const int world_size : {1, 2, 3, 5, 8}) {
    for (const SegmentTable& table : tables(world_size)) {
      for (const Topology& topology : topologies(world_size)) {
        for (const CollectiveAlgorithm algorithm : scheduled) {
          const auto counts = unshard_counts(algorithm, table, topology, 6);
          ASSERT_EQ(counts.size(), static_cast<std::size_t>(world_size));
          for (int rank = 0; rank < world_size; ++rank) {
            expect_equal(counts[static_cast<std::size_t>(rank)],
                         counts_of(unshard_schedule(algorithm, table, topology, rank, 6), topology, rank),
                         std::string(name_of(algorithm)) + ", rank " + std::to_string(rank) + " of " +
                             std::to_string(world_size));
          }
        }
      }
    }
  }
}

/// Block by block: everybody's gradient to the holder, the sum to the owner.
std::vector<TransferCounts> counted(const Reduce& reduce, const Topology& topology, bool last) {
  std::vector<TransferCounts> counts(reduce.blocks.size());
  const auto pass = [&](int from, int to, std::int64_t elements) {
    const bool far = !topology.same_node(from, to);
    counts[static_cast<std::size_t>(from)].sent += elements;
    counts[static_cast<std::size_t>(from)].messages += 1;
    counts[static_cast<std::size_t>(to)].received += elements;
    counts[static_cast<std::size_t>(from)].sent_between_nodes += far ? elements : 0;
    counts[static_cast<std::size_t>(from)].messages_between_nodes += far ? 1 : 0;
    counts[static_cast<std::size_t>(to)].received_between_nodes += far ? elements : 0;
  };
  for (const auto& blocks : reduce.blocks) {
    for (const Piece& block : blocks) {
      for (int rank = 0; rank < topology.world_size(); ++rank) {
        if (rank != block.holder) pass(rank, block.holder, block.elements.size());
      }
      if (last && block.owner != block.holder) pass(block.holder, block.owner, block.elements.size());
    }
  }
  return counts;
}

TEST(PlanCollectiveCounts, reduce_counts_are_those_of_the_pieces) {
  std::vector<std::int64_t> large(5, 1000);
  large[1] = 3 * exchange_block + 5;
  for (const int world_size : {1, 2, 3, 5, 8}) {
    std::vector<SegmentTable> all = tables(world_size);
    if (world_size == 5) all.push_back(owners(large));
    for (const SegmentTable& table : all) {
      for (const Topology& topology : topologies(world_size)) {
        for (const std::int64_t passes : {1, 3}) {
          for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter}) {
            for (const bool last : {false, true}) {
              const auto found = reduce_counts(algorithm, table, topology, passes, last);
              const auto expected = counted(prepare_reduce(algorithm, table, passes), topology, last);
              for (std::size_t rank = 0; rank < found.size(); ++rank)
                expect_equal(found[rank], expected[rank], std::string(name_of(algorithm)));
            }
          }
        }
      }
    }
  }
}

TEST(PlanCollectiveCounts, bad_arguments) {
  const SegmentTable table = even_table(100, 4);
  EXPECT_THROW(unshard_counts(CollectiveAlgorithm::chain, table, make_topology(3, 1)), ContractError);
  EXPECT_THROW(unshard_counts(CollectiveAlgorithm::chain, table, make_topology(4, 1), 0), ContractError);
  EXPECT_THROW(unshard_counts(CollectiveAlgorithm::allgatherv, table, make_topology(4, 1)), ContractError);
  EXPECT_THROW(reduce_counts(CollectiveAlgorithm::direct, table, make_topology(3, 1)), ContractError);
  EXPECT_THROW(reduce_counts(CollectiveAlgorithm::direct, table, make_topology(4, 1), 0), ContractError);
  EXPECT_THROW(reduce_counts(CollectiveAlgorithm::chain, table, make_topology(4, 1)), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
