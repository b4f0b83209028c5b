#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/nccl_attached.hpp"
#include "support/parts_of_world.hpp"
#include "support/wire_values.hpp"

/// What travels as bfloat16, and inside groups of ranks: with the host double and with real devices alike.
namespace matrixfsdp {
namespace {

using nccl::GatherBy;
using testing::all_tables;
using testing::Attached;
using testing::folded;
using testing::folded_rounded;
using testing::nans;
using testing::rounded;
using testing::same;
using testing::value_at;
using testing::wire_value_at;
using testing::world;

const OperationLabel label{"counted", "block.0", "backward"};
constexpr std::array wires{DType::float32, DType::bfloat16};

/// One group of `members` neighbouring ranks out of several.
struct Group {
  explicit Group(int members_) : members(members_), member(world().rank() % members_), first(world().rank() - member) {}

  int members;
  int member;
  int first;
};

/// What stands in element `i` of the buffer of the group from `first` on before it is rounded; float32 has no values
/// that compare unequal to themselves.
float weight_at(DType wire, int first, std::int64_t i) {
  const auto stream = static_cast<std::uint64_t>(first);
  return wire == DType::bfloat16 ? wire_value_at(stream, i) : value_at(stream, i);
}

Tensor<float> shard_of(const SegmentTable& table, const Group& group, DType wire) {
  Tensor<float> shard = make_tensor<float>("shard", table.shard_size(group.member));
  std::size_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(group.member)]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      shard(done++) = weight_at(wire, group.first, i);
  }
  return shard;
}

Unshard unshard_of(const SegmentTable& table, const Group& group, DType wire) {
  Unshard unshard = prepare_unshard(CollectiveAlgorithm::direct, table, make_topology(group.members, 1), group.member,
                                    exchange_block, wire);
  unshard.first_rank = group.first;
  return unshard;
}

/// Bytes that this rank's `run` sends for `purpose`.
template <class Run>
std::int64_t bytes_of(Communicator& communicator, Purpose purpose, const Run& run) {
  const std::int64_t before = communicator.bytes()[purpose];
  run();
  return communicator.bytes()[purpose] - before;
}

void check_gather(Attached& nccl, const SegmentTable& table, const Group& group, DType wire, const std::string& name) {
  const Unshard unshard = unshard_of(table, group, wire);
  const Tensor<float> shard = shard_of(table, group, wire);
  const Tensor<float> buffer = nans(table.size);
  const std::int64_t bytes = bytes_of(nccl.communicator, Purpose::unshard, [&] {
    gather(nccl.communicator, Purpose::unshard, unshard, shard, buffer, label).wait();
  });
  for (std::int64_t i = 0; i < table.size; ++i) {
    const float weight = weight_at(wire, group.first, i);
    ASSERT_TRUE(same(buffer(static_cast<std::size_t>(i)), wire == DType::bfloat16 ? rounded(weight) : weight))
        << name << ", element " << i;
  }
  const Tensor<float> again = shard_of(table, group, wire);
  for (std::size_t i = 0; i < shard.size(); ++i)
    ASSERT_TRUE(same(shard(i), again(i))) << name << ": the master weights have changed";
  EXPECT_EQ(bytes, bytes_of(world(), Purpose::unshard,
                            [&] { gather(world(), Purpose::unshard, unshard, shard, nans(table.size), label).wait(); }))
      << name;
}

TEST(NcclWire, gathers_are_rounded_and_stay_in_their_group) {
  for (const GatherBy way : {GatherBy::automatic, GatherBy::send_recv, GatherBy::broadcast}) {
    for (const int operations : {nccl::most_group_operations, 2}) {
      Attached nccl({way, operations});
      MATRIXFSDP_NEED_NCCL(nccl);
      for (const int members : testing::group_sizes()) {
        for (const DType wire : wires) {
          for (const auto& [table_name, table] : all_tables(members)) {
            check_gather(nccl, table, Group(members), wire,
                         fmt::format("{} in groups of {}, {}, way {}, {} operations", name_of(wire), members,
                                     table_name, static_cast<int>(way), operations));
          }
        }
      }
    }
  }
}

/// The shard after all passes.
Tensor<float> reduced(Communicator& communicator, const Reduce& prepared, const Group& group, std::int64_t passes) {
  const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
  const Tensor<float> shard = nans(prepared.table.shard_size(group.member));
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t micro_batch = pass * world().size() + world().rank();
    Tensor<float> gradient = testing::gradient_of(prepared.table.size, micro_batch);
    if (prepared.wire == DType::bfloat16) {
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient(i) = wire_value_at(static_cast<std::uint64_t>(micro_batch), static_cast<std::int64_t>(i));
    }
    reduce(communicator, prepared, {pass, pass + 1 == passes}, gradient, sums, shard, label).wait();
  }
  return shard;
}

void check_reduce(Attached& nccl, const Reduce& prepared, const Group& group, std::int64_t passes,
                  const std::string& name) {
  Tensor<float> shard;
  const std::int64_t bytes = bytes_of(nccl.communicator, Purpose::reduce,
                                      [&] { shard = reduced(nccl.communicator, prepared, group, passes); });
  const std::int64_t micro_batches = passes * world().size();
  std::size_t at = 0;
  for (const Interval& interval : prepared.table.intervals[static_cast<std::size_t>(group.member)]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i) {
      const float expected =
          prepared.wire == DType::bfloat16 ? folded_rounded(i, micro_batches) : folded(i, micro_batches);
      ASSERT_TRUE(same(shard(at++), expected)) << name << ", element " << i;
    }
  }
  EXPECT_EQ(bytes, bytes_of(world(), Purpose::reduce, [&] { reduced(world(), prepared, group, passes); })) << name;
}

// CASES 1, 8, 9, 44: the left fold over all ranks, whatever the groups, and the bytes of MPI.
TEST(NcclWire, sums_are_the_fold_of_all_groups) {
  for (const int operations : {nccl::most_group_operations, 2}) {
    Attached nccl({GatherBy::automatic, operations});
    MATRIXFSDP_NEED_NCCL(nccl);
    for (const int members : testing::group_sizes()) {
      for (const DType wire : wires) {
        for (const auto& [table_name, table] : all_tables(members)) {
          for (const std::int64_t passes : {1, 3}) {
            const Reduce prepared = prepare_reduce(CollectiveAlgorithm::scatter, table,
                                                   make_topology(world().size(), members), {passes, wire, 1});
            check_reduce(nccl, prepared, Group(members), passes,
                         fmt::format("{} in groups of {}, {}, {} passes", name_of(wire), members, table_name, passes));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
