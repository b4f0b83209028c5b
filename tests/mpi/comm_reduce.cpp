#include <array>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::all_tables;
using testing::folded;
using testing::gradient_of;
using testing::world;

const OperationLabel label{"reduce", "block.0", "backward"};
constexpr std::array algorithms{CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter};

Tensor<float> nans(std::int64_t count) {
  Tensor<float> values = make_tensor<float>("values", count);
  Kokkos::deep_copy(values, std::numeric_limits<float>::quiet_NaN());
  return values;
}

// CASES 1, 8, 9, 27, 44, 45: whoever owns and whoever sums, each owner gets the left fold, bit for bit, and what is
// sent is what the pieces say.
TEST(CommReduce, every_table_and_number_of_passes_gives_the_left_fold) {
  const int rank = world().rank();
  for (const CollectiveAlgorithm algorithm : algorithms) {
    for (const auto& [name, table] : all_tables(world().size())) {
      for (const std::int64_t passes : {1, 3}) {
        const Reduce prepared = prepare_reduce(algorithm, table, passes);
        const Tensor<float> sums = nans(running_sum_elements(prepared, rank));
        const Tensor<float> shard = nans(table.shard_size(rank));
        const std::int64_t before = world().bytes()[Purpose::reduce];
        for (std::int64_t pass = 0; pass < passes; ++pass) {
          reduce(world(), prepared, {pass == 0, pass + 1 == passes},
                 gradient_of(table.size, pass * world().size() + rank), sums, shard, label)
              .wait();
        }
        std::size_t at = 0;
        for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank)]) {
          for (std::int64_t i = interval.begin; i < interval.end; ++i) {
            ASSERT_EQ(shard(at++), folded(i, passes * world().size()))
                << name_of(algorithm) << ", " << name << ", element " << i;
          }
        }
        std::int64_t sent = 0;
        for (const auto& blocks : prepared.blocks) {
          for (const Piece& block : blocks) {
            if (block.holder != rank) sent += passes * block.elements.size();
            if (block.holder == rank && block.owner != rank) sent += block.elements.size();
          }
        }
        EXPECT_EQ(world().bytes()[Purpose::reduce] - before, 4 * sent) << name;
      }
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

TEST(CommReduce, wrong_sizes_are_refused) {
  const SegmentTable table = even_table(50, world().size());
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table);
  const Tensor<float> gradient = make_zeros<float>("gradient", 50);
  const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
  const Tensor<float> longer = make_zeros<float>("longer", table.shard_size(world().rank()) + 1);
  EXPECT_THROW(reduce(world(), prepared, {}, gradient, {}, longer, label), ContractError);
  EXPECT_THROW(reduce(world(), prepared, {}, gradient, longer, shard, label), ContractError);
  EXPECT_THROW(reduce(world(), prepared, {}, make_zeros<float>("short", 49), {}, shard, label), ContractError);
  Reduce of_more = prepared;
  of_more.table.intervals.push_back({});
  EXPECT_THROW(reduce(world(), of_more, {}, gradient, {}, shard, label), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
