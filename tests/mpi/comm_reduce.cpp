#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "support/comm_tables.hpp"
#include "support/count_allocations.hpp"
#include "support/mpi_world.hpp"
#include "support/pmpi_bytes.hpp"

namespace matrixfsdp {
namespace {

using testing::all_tables;
using testing::folded;
using testing::gradient_of;
using testing::value_at;
using testing::world;

const OperationLabel label{"reduce", "block.0", "backward"};
Interval own_chunk(std::int64_t size) {
  return even_table(size, world().size()).intervals[static_cast<std::size_t>(world().rank())][0];
}

Tensor<float> nans(std::int64_t count) {
  Tensor<float> values = make_tensor<float>("values", count);
  Kokkos::deep_copy(values, std::numeric_limits<float>::quiet_NaN());
  return values;
}

/// An algorithm on ranks that stand on nodes as given; MPI moves everything in the same way.
struct Way {
  std::string name;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct;
  Topology topology;
};

Topology uneven_nodes() {
  Topology topology = make_topology(world().size(), 3);
  topology.node.front() = -1;  // one rank, two, three, three, ...
  return topology;
}

Topology dealt_nodes() {
  Topology topology = make_topology(world().size(), 1);
  for (std::size_t rank = 0; rank < topology.node.size(); ++rank)
    topology.node[rank] = static_cast<int>(rank % 2);
  return topology;
}

std::vector<Way> ways() {
  using enum CollectiveAlgorithm;
  const Topology one_node = make_topology(world().size(), world().size());
  return {{"direct", direct, one_node},
          {"scatter", scatter, one_node},
          {"chain", chain, one_node},
          {"tree", tree, one_node},
          {"hierarchical, one node", hierarchical, one_node},
          {"hierarchical, nodes of 2", hierarchical, make_topology(world().size(), 2)},
          {"hierarchical, uneven nodes", hierarchical, uneven_nodes()},
          {"hierarchical, ranks dealt to nodes", hierarchical, dealt_nodes()}};
}

/// Divisors of the micro-batches of a step: groups that are part of a node, a pass, or reach over passes.
std::vector<std::int64_t> sum_groups(std::int64_t passes) {
  std::vector<std::int64_t> groups;
  for (const std::int64_t group : {std::int64_t{2}, std::int64_t{3}, std::int64_t{world().size()},
                                   std::int64_t{2} * world().size(), passes * world().size()}) {
    const bool known = std::find(groups.begin(), groups.end(), group) != groups.end();
    if (group > 1 && !known && passes * world().size() % group == 0) groups.push_back(group);
  }
  return groups;
}

/// All passes of a step, and the shard that is left. What is sent is what the plan counts, in the library's own count
/// and in that of an interposer.
Tensor<float> reduced(const Reduce& prepared, const Topology& topology, const std::string& what) {
  const int rank = world().rank();
  const Tensor<float> sums = nans(running_sum_elements(prepared, rank));
  Tensor<float> shard = nans(prepared.table.shard_size(rank % prepared.members()));
  for (std::int64_t pass = 0; pass < prepared.passes; ++pass) {
    const std::int64_t before = world().bytes()[Purpose::reduce];
    const std::int64_t interposed = matrixfsdp_pmpi_bytes();
    reduce(world(), prepared, {pass, pass + 1 == prepared.passes},
           gradient_of(prepared.table.size, pass * world().size() + rank), sums, shard, label)
        .wait();
    const TransferCounts counts = reduce_counts(prepared, topology, pass)[static_cast<std::size_t>(rank)];
    EXPECT_EQ(world().bytes()[Purpose::reduce] - before, 4 * counts.sent) << what << ", pass " << pass;
    EXPECT_EQ(matrixfsdp_pmpi_bytes() - interposed, 4 * counts.sent) << what << ", pass " << pass;
  }
  return shard;
}

/// `value` of every element of this rank, in the order of its shard.
template <class Value>
void expect_shard(const Tensor<float>& shard, const Reduce& prepared, const std::string& what, const Value& value) {
  std::size_t at = 0;
  const int member = world().rank() % prepared.members();
  for (const Interval& interval : prepared.table.intervals[static_cast<std::size_t>(member)]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i, ++at)
      ASSERT_EQ(shard(at), value(i)) << what << ", element " << i;
  }
}

/// Sizes at which blocks, and chunks of the even cut, begin and end in different places.
std::vector<testing::NamedTable> more_tables() {
  std::vector<testing::NamedTable> tables = all_tables(world().size());
  const std::int64_t ranks = world().size();
  for (const std::int64_t size :
       {exchange_block * ranks - 1, exchange_block * ranks, exchange_block * ranks + 1, 2 * exchange_block * ranks + 3})
    tables.push_back({"even, " + std::to_string(size), even_table(size, world().size())});
  return tables;
}

/// For what multiplies runs: empty, dealt, one owner, several blocks.
std::vector<testing::NamedTable> some_tables(int members) {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(members), 0);
  auto one = none;
  one.back() = 18 * 64;
  auto blocks = none;
  blocks[none.size() / 2] = exchange_block + 7;
  return {{"nothing", testing::owner_table(none, 0)},
          {"65 matrices", testing::dealt_table(members, 65, 165)},
          {"one owner", testing::owner_table(one, 0)},
          {"blocks", testing::owner_table(blocks, 11)}};
}

// CASES 1, 8, 9, 27, 44, 45: whoever owns, whoever sums and however it travels, each owner gets the left fold, bit for
// bit.
TEST(CommReduce, every_algorithm_table_and_number_of_passes_gives_the_left_fold) {
  for (const Way& way : ways()) {
    for (const auto& [name, table] : more_tables()) {
      for (const std::int64_t passes : {1, 3}) {
        const std::string what = fmt::format("{}, {}, {} passes", way.name, name, passes);
        const Reduce prepared = prepare_reduce(way.algorithm, table, way.topology, {passes, DType::float32, 1});
        expect_shard(reduced(prepared, way.topology, what), prepared, what,
                     [&](std::int64_t i) { return folded(i, passes * world().size()); });
      }
    }
  }
}

// Groups that end where runs and passes do, and groups that do not: what is open travels too.
TEST(CommReduce, every_algorithm_sums_the_same_groups_first) {
  const int ranks = world().size();
  bool order_matters = ranks == 1;
  for (const Way& way : ways()) {
    for (const auto& [name, table] : some_tables(ranks)) {
      for (const std::int64_t passes : {1, 2, 4}) {
        for (const std::int64_t group : sum_groups(passes)) {
          const std::string what = fmt::format("{}, {}, {} passes, groups of {}", way.name, name, passes, group);
          const Reduce prepared = prepare_reduce(way.algorithm, table, way.topology, {passes, DType::float32, group});
          expect_shard(reduced(prepared, way.topology, what), prepared, what, [&](std::int64_t i) {
            const float expected = testing::folded_in_groups(i, passes * ranks, group);
            order_matters = order_matters || expected != folded(i, passes * ranks);
            return expected;
          });
        }
      }
    }
  }
  EXPECT_TRUE(testing::sum_over_ranks(int{order_matters}) > 0) << "the values cannot show other groups";
}

// Shard groups, one after the other: the fold is over all ranks, and every group's owners get it.
TEST(CommReduce, every_algorithm_gives_every_replica_the_fold_over_all_ranks) {
  const int ranks = world().size();
  constexpr std::int64_t passes = 3;  // a first one, one between, a last one
  for (int members = 1; members < ranks; ++members) {
    if (ranks % members != 0) continue;
    for (const Way& way : ways()) {
      for (const auto& [name, table] : some_tables(members)) {
        for (const std::int64_t group : {std::int64_t{1}, std::int64_t{3}, passes * ranks}) {
          const std::string what = fmt::format("{} members, {}, {}, groups of {}", members, way.name, name, group);
          const Reduce prepared = prepare_reduce(way.algorithm, table, way.topology, {passes, DType::float32, group});
          expect_shard(reduced(prepared, way.topology, what), prepared, what,
                       [&](std::int64_t i) { return testing::folded_in_groups(i, passes * ranks, group); });
        }
      }
    }
  }
}

// Several under way, in different ways, completed in another order than they were issued.
TEST(CommReduce, different_algorithms_run_side_by_side) {
  const SegmentTable table = testing::dealt_table(world().size(), 5, 2 * exchange_block + 9);
  const std::vector<Way> all = ways();
  std::vector<Reduce> prepared;
  std::vector<Tensor<float>> memory;
  std::vector<Tensor<float>> shards;
  std::vector<Request> requests;
  for (const Way& way : all) {
    prepared.push_back(prepare_reduce(way.algorithm, table, way.topology));
    memory.push_back(gradient_of(table.size, world().rank()));
    memory.push_back(nans(running_sum_elements(prepared.back(), world().rank())));
    shards.push_back(nans(table.shard_size(world().rank())));
    requests.push_back(
        reduce(world(), prepared.back(), {}, memory[memory.size() - 2], memory.back(), shards.back(), label));
  }
  while (!requests.empty()) {
    requests.back().wait();
    requests.pop_back();
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    expect_shard(shards[i], prepared[i], all[i].name, [](std::int64_t e) { return folded(e, world().size()); });
}

// The plan's memory prediction uses this formula: it must be what is allocated.
TEST(CommReduce, staging_is_what_the_formula_says) {
  const SegmentTable table = testing::dealt_table(world().size(), 5, 2 * exchange_block + 9);
  for (const Way& way : ways()) {
    for (const DType wire : {DType::float32, DType::bfloat16}) {
      for (const std::int64_t group : {1, 2}) {
        const std::string what = fmt::format("{}, {}, groups of {}", way.name, name_of(wire), group);
        const Reduce prepared = prepare_reduce(way.algorithm, table, way.topology, {2, wire, group});
        const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
        const Tensor<float> shard = nans(table.shard_size(world().rank()));
        for (const std::int64_t pass : {0, 1}) {
          const Tensor<float> gradient = gradient_of(table.size, pass * world().size() + world().rank());
          const test::CountAllocations allocations;
          Request request = reduce(world(), prepared, {pass, pass == 1}, gradient, sums, shard, label);
          const std::int64_t allocated = allocations.bytes();
          request.wait();
          // Kokkos rounds each of two tensors up to 8 bytes.
          EXPECT_GE(allocated, reduce_staging_bytes(prepared, world().rank())) << what;
          EXPECT_LE(allocated, reduce_staging_bytes(prepared, world().rank()) + 14) << what;
        }
      }
    }
  }
}

// The first of a sum is copied: 0 + (-0) would be +0. Of a group's sum, and of the sum of groups.
TEST(CommReduce, a_negative_zero_stays_one) {
  const SegmentTable table = even_table(100, world().size());
  for (const Way& way : ways()) {
    for (const std::int64_t group : {1, 2}) {
      const Reduce prepared = prepare_reduce(way.algorithm, table, way.topology, {2, DType::float32, group});
      const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
      const Tensor<float> shard = nans(table.shard_size(world().rank()));
      for (const std::int64_t pass : {0, 1}) {
        const Tensor<float> gradient = make_tensor<float>("gradient", table.size);
        Kokkos::deep_copy(gradient, -0.0F);
        reduce(world(), prepared, {pass, pass == 1}, gradient, sums, shard, label).wait();
      }
      for (std::size_t i = 0; i < shard.size(); ++i)
        EXPECT_TRUE(shard(i) == 0 && std::signbit(shard(i))) << way.name << ", groups of " << group;
    }
  }
}

// ddp: the chunks of the even cut, gathered by everybody, give every rank the whole sum.
TEST(CommReduce, even_cut_and_gather_bring_all_sums_to_every_rank) {
  const SegmentTable table = even_table(10 * world().size() + 3, world().size());
  const Interval chunk = table.intervals[static_cast<std::size_t>(world().rank())][0];
  const Tensor<float> whole = nans(table.size);
  const TensorView<float> mine = slice(whole, chunk.begin, chunk.size());
  testing::reduce_evenly(world(), table.size, true, gradient_of(table.size, world().rank()), mine, label).wait();
  gather(world(), Purpose::reduce, testing::unshard_of(world(), table), mine, whole, label).wait();
  for (std::int64_t i = 0; i < table.size; ++i)
    EXPECT_EQ(whole(static_cast<std::size_t>(i)), folded(i, world().size()));
}

TEST(CommReduce, reductions_and_gathers_run_side_by_side) {
  const std::int64_t size = 3 * exchange_block * world().size() + 11;
  const SegmentTable table = even_table(size, world().size());
  const Interval chunk = own_chunk(size);
  std::vector<Tensor<float>> gradients;
  std::vector<Tensor<float>> sums;
  std::vector<Request> requests;
  const Tensor<float> whole = make_zeros<float>("whole", size);
  const Tensor<float> shard = make_tensor<float>("shard", chunk.size());
  for (std::int64_t i = 0; i < chunk.size(); ++i)
    shard(static_cast<std::size_t>(i)) = value_at(99, chunk.begin + i);
  for (int i = 0; i < 3; ++i) {
    gradients.push_back(gradient_of(size, world().rank()));
    sums.push_back(make_zeros<float>("sums", chunk.size()));
    requests.push_back(testing::reduce_evenly(world(), size, true, gradients.back(), sums.back(), label));
    if (i == 1)
      requests.push_back(gather(world(), Purpose::unshard, testing::unshard_of(world(), table), shard, whole, label));
  }
  while (!requests.empty()) {
    requests.back().wait();
    requests.pop_back();
  }
  for (const Tensor<float>& sum : sums) {
    for (std::int64_t i = 0; i < chunk.size(); ++i) {
      ASSERT_EQ(sum(static_cast<std::size_t>(i)), folded(chunk.begin + i, world().size()));
    }
  }
  for (std::int64_t i = 0; i < size; ++i)
    ASSERT_EQ(whole(static_cast<std::size_t>(i)), value_at(99, i));
}

// A peer that cuts another size is an error, not silence (CASES 38, 39).
TEST(CommReduce, ranks_with_different_sizes_get_an_error) {
  if (world().size() == 1) return;
  Communicator own = testing::duplicate_world();
  own.set_deadline(std::chrono::seconds(2));
  const std::int64_t size = 10 * own.size() + (own.rank() == 0 ? own.size() : 0);
  const Tensor<float> gradient = gradient_of(size, own.rank());
  const Tensor<float> sums = make_zeros<float>("sums", own_chunk(size).size());
  EXPECT_THROW(testing::reduce_evenly(own, size, true, gradient, sums, label).wait(), CommunicationError);
  world().barrier({"end of test", "", ""});
}

TEST(CommReduce, wrong_sizes_are_refused) {
  const SegmentTable table = even_table(50, world().size());
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table);
  const Tensor<float> gradient = make_zeros<float>("gradient", 50);
  const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
  const Tensor<float> longer = make_zeros<float>("longer", table.shard_size(world().rank()) + 1);
  EXPECT_THROW(reduce(world(), prepared, {}, gradient, {}, longer, label), ContractError);
  EXPECT_THROW(reduce(world(), prepared, {}, gradient, longer, shard, label), ContractError);
  EXPECT_THROW(reduce(world(), prepared, {}, make_zeros<float>("short", 49), {}, shard, label), ContractError);
  const Reduce in_groups = prepare_reduce(CollectiveAlgorithm::direct, table, make_topology(world().size(), 1),
                                          {2, DType::float32, std::int64_t{2} * world().size()});
  const Tensor<float> sums = make_zeros<float>("sums", running_sum_elements(in_groups, world().rank()));
  EXPECT_THROW(reduce(world(), in_groups, {0, true}, gradient, sums, shard, label), ContractError);
  EXPECT_THROW(reduce(world(), in_groups, {2, false}, gradient, sums, shard, label), ContractError);
  Reduce of_more = prepared;
  of_more.table.intervals.push_back({});
  EXPECT_THROW(reduce(world(), of_more, {}, gradient, {}, shard, label), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
