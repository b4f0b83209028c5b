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

/// What is passed from rank to rank, one message at a time.
class Tally {
 public:
  explicit Tally(const Topology& topology) : counts(topology.node.size()), topology_(topology) {}
  std::vector<TransferCounts> counts;

  void pass(int from, int to, std::int64_t elements, std::int64_t messages = 1) {
    if (from == to || elements == 0) return;
    const bool far = !topology_.same_node(from, to);
    TransferCounts& sender = counts[static_cast<std::size_t>(from)];
    TransferCounts& receiver = counts[static_cast<std::size_t>(to)];
    sender.sent += elements;
    sender.messages += messages;
    receiver.received += elements;
    sender.sent_between_nodes += far ? elements : 0;
    sender.messages_between_nodes += far ? messages : 0;
    receiver.received_between_nodes += far ? elements : 0;
  }

 private:
  const Topology& topology_;
};

/// Direct and scatter, block by block: everybody's gradient to the holder, the sum to the owner.
void count_kept(const Reduce& reduce, bool last, Tally& tally) {
  for (const auto& blocks : reduce.blocks) {
    for (const Piece& block : blocks) {
      for (int rank = 0; rank < reduce.world_size(); ++rank)
        tally.pass(rank, block.holder, block.elements.size());
      if (last) tally.pass(block.holder, block.owner, block.elements.size());
    }
  }
}

/// Chain and hierarchical: to the run's holders; then one gradient after the other is added, and what is needed travels
/// to where that happens: the group that is open, and where one is complete, the sum of those before. Owners have both
/// between passes.
void count_returned(const Reduce& reduce, std::int64_t pass, Tally& tally) {
  const auto holder = [&](int of, const Piece& block) {
    const RankGroup& run = reduce.runs[reduce.run_of(of)];
    for (int rank = run.first; rank < run.first + run.size; ++rank) {
      for (const Piece& held : reduce.held_by(rank)) {
        if (held.elements == block.elements) return rank;
      }
    }
    return -1;
  };
  for (int first = 0; first < reduce.runs.front().size; ++first) {
    for (const Piece& block : reduce.held_by(first)) {
      int sum_at = pass * reduce.world_size() >= reduce.sum_group ? block.owner : -1;
      int open_at = pass * reduce.world_size() % reduce.sum_group > 0 ? block.owner : -1;
      const auto bring = [&](int& at, int to) {
        if (at >= 0) tally.pass(at, to, block.elements.size());
        at = to;
      };
      for (int rank = 0; rank < reduce.world_size(); ++rank) {
        const int where = holder(rank, block);
        tally.pass(rank, where, block.elements.size());
        bring(open_at, where);
        if ((pass * reduce.world_size() + rank + 1) % reduce.sum_group > 0) continue;
        bring(sum_at, where);
        open_at = -1;
      }
      if (sum_at >= 0) bring(sum_at, block.owner);
      if (open_at >= 0) bring(open_at, block.owner);
    }
  }
}

/// Tree: each gradient climbs from rank to rank, each sum comes down; what goes together is one message.
void count_tree(const Reduce& reduce, bool last, Tally& tally) {
  const int ranks = reduce.world_size();
  for (int position = 1; position < ranks; ++position) {
    const int parent = position - (position & -position);
    std::int64_t below = 0;
    std::int64_t owned = 0;
    for (int other = 0; other < ranks; ++other) {
      int up = other;
      while (up != 0 && up != position)
        up -= up & -up;
      if (up != position) continue;
      ++below;
      owned += reduce.table.shard_size((reduce.root + other) % ranks);
    }
    const auto messages = [&](std::int64_t elements) { return (elements + reduce.message - 1) / reduce.message; };
    const int rank = (reduce.root + position) % ranks;
    const int above = (reduce.root + parent) % ranks;
    tally.pass(rank, above, below * reduce.table.size, messages(below * reduce.table.size));
    if (last) tally.pass(above, rank, owned, messages(owned));
  }
}

std::vector<TransferCounts> counted(const Reduce& reduce, const Topology& topology, std::int64_t pass) {
  Tally tally(topology);
  const bool last = pass + 1 == reduce.passes;
  if (reduce.returns_sums())
    count_returned(reduce, pass, tally);
  else if (reduce.algorithm == CollectiveAlgorithm::tree)
    count_tree(reduce, last, tally);
  else
    count_kept(reduce, last, tally);
  return tally.counts;
}

constexpr CollectiveAlgorithm reducing[] = {CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter,
                                            CollectiveAlgorithm::chain, CollectiveAlgorithm::tree,
                                            CollectiveAlgorithm::hierarchical};

TEST(PlanCollectiveCounts, reduce_counts_are_those_of_the_pieces) {
  std::vector<std::int64_t> large(5, 1000);
  large[1] = 3 * exchange_block + 5;
  for (const int world_size : {1, 2, 3, 5, 8}) {
    std::vector<SegmentTable> all = tables(world_size);
    if (world_size == 5) all.push_back(owners(large));
    for (const SegmentTable& table : all) {
      for (const Topology& topology : topologies(world_size)) {
        for (const CollectiveAlgorithm algorithm : reducing) {
          for (const std::int64_t group : {std::int64_t{1}, std::int64_t{2}, std::int64_t{2} * world_size}) {
            const Reduce reduce = prepare_reduce(algorithm, table, topology, {4, DType::float32, group});
            for (const std::int64_t pass : {0, 1, 3}) {
              const auto found = reduce_counts(reduce, topology, pass);
              const auto expected = counted(reduce, topology, pass);
              for (std::size_t rank = 0; rank < found.size(); ++rank)
                expect_equal(found[rank], expected[rank],
                             std::string(name_of(algorithm)) + ", pass " + std::to_string(pass));
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
  const Reduce reduce = prepare_reduce(CollectiveAlgorithm::direct, table, 2);
  EXPECT_THROW(reduce_counts(reduce, make_topology(3, 1)), ContractError);
  EXPECT_THROW(reduce_counts(reduce, make_topology(4, 1), 2), ContractError);
  EXPECT_THROW(reduce_counts(reduce, make_topology(4, 1), -1), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
