#include <array>
#include <chrono>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"
#include "support/pmpi_bytes.hpp"

namespace matrixfsdp {
namespace {

using testing::all_tables;
using testing::unshard_of;
using testing::value_at;
using testing::world;

const OperationLabel label{"unshard", "block.0", "forward"};

/// This rank's shard of the buffer whose element i is value_at(stream, i).
Tensor<float> shard_of(const SegmentTable& table, std::uint64_t stream) {
  Tensor<float> shard = make_tensor<float>("shard", table.shard_size(world().rank()));
  std::int64_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(world().rank())]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i) {
      shard(static_cast<std::size_t>(done++)) = value_at(stream, i);
    }
  }
  return shard;
}

constexpr std::array our_algorithms{CollectiveAlgorithm::direct,       CollectiveAlgorithm::chain,
                                    CollectiveAlgorithm::scatter,      CollectiveAlgorithm::tree,
                                    CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::padded};

Tensor<float> nan_buffer(std::int64_t count) {
  Tensor<float> buffer = make_tensor<float>("buffer", count);
  Kokkos::deep_copy(buffer, std::numeric_limits<float>::quiet_NaN());
  return buffer;
}

void expect_values(const Tensor<float>& buffer, std::uint64_t stream, const std::string& name) {
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    ASSERT_EQ(buffer(i), value_at(stream, static_cast<std::int64_t>(i))) << name << ", element " << i;
  }
}

// CASES 1, 8, 44, 45: any table, empty shards too; each rank sends its shard to each other rank, and not a byte more.
TEST(CommGather, every_table_arrives_in_place_with_exact_bytes) {
  for (const auto& [name, table] : all_tables(world().size())) {
    const Tensor<float> shard = shard_of(table, 1);
    const Tensor<float> buffer = nan_buffer(table.size);
    const ByteCounts before = world().bytes();
    gather(world(), Purpose::unshard, unshard_of(world(), table), shard, buffer, label).wait();
    expect_values(buffer, 1, name);
    EXPECT_EQ(world().bytes()[Purpose::unshard] - before[Purpose::unshard],
              4 * table.shard_size(world().rank()) * (world().size() - 1))
        << name;
    EXPECT_EQ(world().bytes().total() - before.total(), 4 * table.shard_size(world().rank()) * (world().size() - 1))
        << name;
  }
}

/// Ranks on one node; on nodes of two in rank order; in turn on two nodes.
std::vector<Topology> topologies() {
  std::vector<Topology> all{make_topology(world().size(), world().size()), make_topology(world().size(), 2), {}};
  for (int rank = 0; rank < world().size(); ++rank)
    all.back().node.push_back(rank % 2);
  return all;
}

// CASES 1, 3, 44, 45: whoever owns what, and whichever way it goes, the same bits arrive; what is sent is what the
// schedule says.
TEST(CommGather, every_algorithm_brings_every_table) {
  for (const CollectiveAlgorithm algorithm : our_algorithms) {
    for (const auto& [name, table] : all_tables(world().size())) {
      for (const Topology& topology : topologies()) {
        const std::string what = fmt::format("{}, {}", name_of(algorithm), name);
        const Unshard unshard = prepare_unshard(algorithm, table, topology, world().rank(), 700);
        const Tensor<float> buffer = nan_buffer(table.size);
        const std::int64_t before = world().bytes()[Purpose::unshard];
        gather(world(), Purpose::unshard, unshard, shard_of(table, 1), buffer, label).wait();
        expect_values(buffer, 1, what);
        EXPECT_EQ(world().bytes()[Purpose::unshard] - before,
                  4 * counts_of(unshard.schedule, topology, world().rank()).sent)
            << what;
      }
    }
  }
}

TEST(CommGather, the_library_brings_every_table) {
  for (const auto& [name, table] : all_tables(world().size())) {
    const Tensor<float> shard = shard_of(table, 5);
    const Tensor<float> buffer = nan_buffer(table.size);
    const std::int64_t before = world().bytes()[Purpose::unshard];
    gather(world(), Purpose::unshard, unshard_of(world(), table, CollectiveAlgorithm::allgatherv), shard, buffer, label)
        .wait();
    expect_values(buffer, 5, name);
    EXPECT_EQ(world().bytes()[Purpose::unshard] - before, 4 * table.shard_size(world().rank()) * (world().size() - 1));
  }
}

// A block of the schedule may be several messages, which complete in any order.
TEST(CommGather, nothing_is_passed_on_before_all_of_its_messages_have_come) {
  if (world().size() < 3) return;
  SegmentTable table = even_table(0, world().size());
  table.size = 2 * exchange_block + 3;
  for (std::size_t rank = 0; rank < table.intervals.size(); ++rank)
    table.intervals[rank][0] = {rank == 0 ? 0 : table.size, table.size};
  const Unshard unshard =
      unshard_of(world(), table, CollectiveAlgorithm::chain, 1, static_cast<std::int64_t>(table.size));
  const Tensor<float> buffer = nan_buffer(table.size);
  matrixfsdp_pmpi_hold(buffer.data(), world().rank() == 0 ? 0 : 100);
  gather(world(), Purpose::unshard, unshard, shard_of(table, 1), buffer, label).wait();
  EXPECT_EQ(matrixfsdp_pmpi_left_to_hold(), 0);
  EXPECT_EQ(matrixfsdp_pmpi_sent_while_held(), 0);
  matrixfsdp_pmpi_hold(nullptr, 0);
  expect_values(buffer, 1, "one block of three messages");
}

// All algorithms under way at once, and a rank that comes late.
TEST(CommGather, algorithms_under_way_at_once_keep_apart) {
  const SegmentTable table = testing::dealt_table(world().size(), 5, 5000);
  std::vector<Tensor<float>> shards;
  std::vector<Tensor<float>> buffers;
  std::vector<Request> requests;
  if (world().rank() == world().size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const CollectiveAlgorithm algorithm : our_algorithms) {
    shards.push_back(shard_of(table, shards.size()));
    buffers.push_back(nan_buffer(table.size));
    requests.push_back(gather(world(), Purpose::unshard, unshard_of(world(), table, algorithm, 2, 100), shards.back(),
                              buffers.back(), label));
  }
  for (std::size_t i = requests.size(); i-- > 0;)
    requests[i].wait();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    expect_values(buffers[i], i, std::string(name_of(our_algorithms[i])));
}

TEST(CommGather, ranks_of_a_node_are_found) {
  const Topology topology = mpi::topology_of(world());
  ASSERT_EQ(topology.world_size(), world().size());
  EXPECT_TRUE(topology.same_node(world().rank(), world().rank()));
  EXPECT_EQ(topology.node.front(), 0) << "a node is named by its first rank";
}

// A running request does not disturb others: all tables twice at the same time, completed in another order than
// started.
TEST(CommGather, many_gathers_under_way_at_once_keep_apart) {
  const auto tables = all_tables(world().size());
  std::vector<Tensor<float>> shards;
  std::vector<Tensor<float>> buffers;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 2 * tables.size(); ++i) {
    const SegmentTable& table = tables[i % tables.size()].table;
    shards.push_back(shard_of(table, i));
    buffers.push_back(nan_buffer(table.size));
    requests.push_back(gather(world(), Purpose::unshard, unshard_of(world(), table), shards[i], buffers[i], label));
  }
  world().barrier({"barrier between", "", ""});
  for (std::size_t i = requests.size(); i-- > 0;) {
    requests[i].wait();
    EXPECT_TRUE(requests[i].test());
  }
  for (std::size_t i = 0; i < buffers.size(); ++i)
    expect_values(buffers[i], i, tables[i % tables.size()].name);
}

// A late rank: the others' requests make progress only by test(), and stay incomplete until it has come.
TEST(CommGather, test_alone_completes_a_gather) {
  const SegmentTable table = testing::dealt_table(world().size(), 5, 10);
  const Tensor<float> shard = shard_of(table, 3);
  const Tensor<float> buffer = nan_buffer(table.size);
  Request request = gather(world(), Purpose::unshard, unshard_of(world(), table), shard, buffer, label);
  const auto end = std::chrono::steady_clock::now() + world().deadline();
  while (!request.test()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    Kokkos::fence();
  }
  expect_values(buffer, 3, "polled");
}

TEST(CommGather, a_single_rank_may_gather_in_place) {
  if (world().size() > 1) return;
  const SegmentTable table = even_table(100, 1);
  const Tensor<float> shard = shard_of(table, 4);
  gather(world(), Purpose::unshard, unshard_of(world(), table), shard, shard, label).wait();
  expect_values(shard, 4, "in place");
}

TEST(CommGather, wrong_sizes_and_tables_are_refused_before_anything_is_sent) {
  const SegmentTable table = even_table(40, world().size());
  const Tensor<float> shard = shard_of(table, 1);
  const Tensor<float> longer = make_tensor<float>("longer", table.shard_size(world().rank()) + 1);
  const Tensor<float> buffer = nan_buffer(table.size);
  const Tensor<float> shorter = nan_buffer(table.size - 1);
  EXPECT_THROW(gather(world(), Purpose::unshard, unshard_of(world(), table), longer, buffer, label), ContractError);
  EXPECT_THROW(gather(world(), Purpose::unshard, unshard_of(world(), table), shard, shorter, label), ContractError);
  SegmentTable gap = table;
  gap.size += 1;
  EXPECT_THROW(unshard_of(world(), gap), ContractError);
  SegmentTable overlap = table;
  overlap.intervals.back()[1] = {0, 1};
  EXPECT_THROW(unshard_of(world(), overlap), ContractError);
  SegmentTable ranks = table;
  ranks.intervals.push_back({});
  EXPECT_THROW(unshard_of(world(), ranks), ContractError);
  Unshard of_more = unshard_of(world(), table);
  of_more.table = ranks;
  EXPECT_THROW(gather(world(), Purpose::unshard, of_more, shard, buffer, label), ContractError);
  try {
    gather(world(), Purpose::unshard, unshard_of(world(), table), shard, shorter, label);
    ADD_FAILURE() << "a buffer of another size was taken";
  } catch (const ContractError& error) {
    EXPECT_STREQ(error.what(), "unshard of unit block.0 (forward): the buffer has 39 elements: expected 40");
  }
}

// CASES 43: offsets and counts are 64-bit, and do not overflow where size * rank does.
TEST(CommGather, the_even_cut_is_exact_for_huge_sizes) {
  const std::int64_t size = (std::int64_t{1} << 62) - 3;
  const SegmentTable table = even_table(size, 1000);
  EXPECT_EQ(table.size, size);
  std::int64_t position = 0;
  for (const auto& intervals : table.intervals) {
    EXPECT_EQ(intervals[0].begin, position);
    EXPECT_GE(intervals[0].size(), size / 1000);
    EXPECT_LE(intervals[0].size(), size / 1000 + 1);
    EXPECT_TRUE(intervals[1].empty());
    position = intervals[0].end;
  }
  EXPECT_EQ(position, size);
  EXPECT_THROW(even_table(-1, 2), ContractError);
  EXPECT_THROW(even_table(1, 0), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
