#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"
#include "support/parts_of_world.hpp"

/// Shard groups and their replicas: every split of the ranks into groups of one size.
namespace matrixfsdp {
namespace {

using testing::all_tables;
using testing::folded;
using testing::gradient_of;
using testing::group_sizes;
using testing::nans;
using testing::sum_over_ranks;
using testing::value_at;
using testing::world;

const OperationLabel label{"collective", "block.0", "backward"};

/// What all ranks send: gradients inside groups, sums from group to group, and where they go after the last.
std::int64_t expected_elements(const Reduce& reduce, std::int64_t passes) {
  const auto members = static_cast<std::int64_t>(reduce.table.intervals.size());
  const std::int64_t size = reduce.table.size;
  std::int64_t elements = passes * size * (members - 1) * reduce.replicas + passes * size * (reduce.replicas - 1);
  if (reduce.replicas > 1) elements += (passes - 1) * size;
  for (const auto& blocks : reduce.blocks) {
    for (const Piece& block : blocks)
      elements += block.elements.size() * (reduce.replicas - (block.owner == block.holder ? 1 : 0));
  }
  return elements;
}

// The fold over all ranks does not know the groups: 1 x 4, 2 x 2 and 4 x 1 give the same bits.
TEST(CommGroups, reduce_gives_every_replica_the_left_fold_over_all_ranks) {
  for (const int members : group_sizes()) {
    const int member = world().rank() % members;
    for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter}) {
      for (const auto& [name, table] : all_tables(members)) {
        for (const std::int64_t passes : {1, 3}) {
          const Reduce prepared =
              prepare_reduce(algorithm, table, make_topology(world().size(), 2), {passes, DType::float32, 1});
          const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
          const Tensor<float> shard = nans(table.shard_size(member));
          const std::int64_t before = world().bytes()[Purpose::reduce];
          for (std::int64_t pass = 0; pass < passes; ++pass) {
            const std::int64_t micro_batch = pass * world().size() + world().rank();
            reduce(world(), prepared, {pass, pass + 1 == passes}, gradient_of(table.size, micro_batch), sums, shard,
                   label)
                .wait();
          }
          std::size_t at = 0;
          for (const Interval& interval : table.intervals[static_cast<std::size_t>(member)]) {
            for (std::int64_t i = interval.begin; i < interval.end; ++i) {
              ASSERT_EQ(shard(at++), folded(i, passes * world().size()))
                  << members << " members, " << name_of(algorithm) << ", " << name << ", element " << i;
            }
          }
          EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::reduce] - before), 4 * expected_elements(prepared, passes))
              << members << " members, " << name;
        }
      }
    }
  }
}

TEST(CommGroups, gather_stays_inside_the_group) {
  for (const int members : group_sizes()) {
    const int member = world().rank() % members;
    const int group = world().rank() / members;
    for (const CollectiveAlgorithm algorithm :
         {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::scatter,
          CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::padded}) {
      for (const auto& [name, table] : all_tables(members)) {
        Unshard unshard = prepare_unshard(algorithm, table, make_topology(members, 2), member);
        unshard.first_rank = group * members;
        const Tensor<float> shard = make_tensor<float>("shard", table.shard_size(member));
        std::size_t at = 0;
        for (const Interval& interval : table.intervals[static_cast<std::size_t>(member)]) {
          for (std::int64_t i = interval.begin; i < interval.end; ++i)
            shard(at++) = value_at(static_cast<std::uint64_t>(group), i);
        }
        const Tensor<float> buffer = nans(table.size);
        gather(world(), Purpose::unshard, unshard, shard, buffer, label).wait();
        for (std::int64_t i = 0; i < table.size; ++i) {
          ASSERT_EQ(buffer(static_cast<std::size_t>(i)), value_at(static_cast<std::uint64_t>(group), i))
              << members << " members, " << name_of(algorithm) << ", " << name << ", element " << i;
        }
      }
    }
  }
}

TEST(CommGroups, wrong_groups_are_refused) {
  const int ranks = world().size();
  const SegmentTable table = even_table(10, ranks);
  const Tensor<float> buffer = make_zeros<float>("buffer", 10);
  const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
  Unshard unshard = testing::unshard_of(world(), table);
  unshard.first_rank = 1;
  EXPECT_THROW(gather(world(), Purpose::unshard, unshard, shard, buffer, label), ContractError);
  Unshard alone = prepare_unshard(CollectiveAlgorithm::allgatherv, even_table(10, 1), make_topology(1, 1), 0);
  alone.first_rank = world().rank();
  if (ranks > 1) {
    EXPECT_THROW(gather(world(), Purpose::unshard, alone, buffer, buffer, label), ContractError);
  }
  Reduce reduction = prepare_reduce(CollectiveAlgorithm::direct, table);
  for (const int replicas : {0, 2}) {
    reduction.replicas = replicas;
    EXPECT_THROW(reduce(world(), reduction, {}, buffer, {}, shard, label), ContractError);
  }
}

}  // namespace
}  // namespace matrixfsdp
