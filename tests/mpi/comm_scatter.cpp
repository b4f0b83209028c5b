#include <limits>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::all_tables;
using testing::value_at;
using testing::world;

const OperationLabel label{"reduce", "block.0", "backward"};

Tensor<float> chunk_values(const Interval& chunk, std::uint64_t stream) {
  Tensor<float> sums = make_tensor<float>("sums", chunk.size());
  for (std::int64_t i = 0; i < chunk.size(); ++i)
    sums(static_cast<std::size_t>(i)) = value_at(stream, chunk.begin + i);
  return sums;
}

// CASES 1, 8, 27, 44, 45: chunks reach whoever holds the elements; what a rank holds already does not travel.
TEST(CommScatter, chunks_reach_every_table_with_exact_bytes) {
  for (const auto& [name, table] : all_tables(world().size())) {
    const auto& mine = table.intervals[static_cast<std::size_t>(world().rank())];
    const Interval chunk =
        even_table(table.size, world().size()).intervals[static_cast<std::size_t>(world().rank())][0];
    const Tensor<float> sums = chunk_values(chunk, 5);
    const Tensor<float> shard = make_tensor<float>("shard", table.shard_size(world().rank()));
    Kokkos::deep_copy(shard, std::numeric_limits<float>::quiet_NaN());
    const ByteCounts before = world().bytes();
    scatter_chunks(world(), table, sums, shard, label).wait();
    std::size_t at = 0;
    for (const Interval& interval : mine) {
      for (std::int64_t i = interval.begin; i < interval.end; ++i) {
        ASSERT_EQ(shard(at++), value_at(5, i)) << name << ", element " << i;
      }
    }
    const std::int64_t stays = intersect(chunk, mine[0]).size() + intersect(chunk, mine[1]).size();
    EXPECT_EQ(world().bytes()[Purpose::reduce] - before[Purpose::reduce], 4 * (chunk.size() - stays)) << name;
    EXPECT_EQ(world().bytes().total() - before.total(), 4 * (chunk.size() - stays)) << name;
  }
}

// ddp: the chunks of the even cut, gathered by everybody, give every rank the whole sum.
TEST(CommScatter, even_table_and_gather_bring_all_chunks_to_every_rank) {
  const SegmentTable table = even_table(10 * world().size() + 3, world().size());
  const Interval chunk = table.intervals[static_cast<std::size_t>(world().rank())][0];
  const Tensor<float> whole = make_zeros<float>("whole", table.size);
  gather(world(), Purpose::reduce, testing::unshard_of(world(), table), chunk_values(chunk, 6), whole, label).wait();
  for (std::int64_t i = 0; i < table.size; ++i)
    EXPECT_EQ(whole(static_cast<std::size_t>(i)), value_at(6, i));
}

TEST(CommScatter, wrong_sizes_are_refused) {
  const SegmentTable table = even_table(50, world().size());
  const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
  const Tensor<float> longer = make_zeros<float>("longer", table.shard_size(world().rank()) + 1);
  EXPECT_THROW(scatter_chunks(world(), table, longer, shard, label), ContractError);
  EXPECT_THROW(scatter_chunks(world(), table, shard, longer, label), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
