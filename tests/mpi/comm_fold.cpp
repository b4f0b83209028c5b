#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/count_allocations.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::folded;
using testing::gradient_of;
using testing::value_at;
using testing::world;

const OperationLabel label{"reduce", "block.0", "backward"};

std::vector<std::int64_t> sizes() {
  const std::int64_t ranks = world().size();
  const std::int64_t block = exchange_block;
  return {0,
          1,
          ranks - 1,
          ranks,
          ranks + 1,
          31 * ranks + 1,
          1000,
          block - 1,
          32 * ranks,
          block * ranks - 1,
          block * ranks,
          block * ranks + 1,
          2 * block * ranks + 3,
          5 * block * ranks + 7};
}

Interval own_chunk(std::int64_t size) {
  return even_table(size, world().size()).intervals[static_cast<std::size_t>(world().rank())][0];
}

// CASES 9, 41, 42: strict order, so the bits do not depend on sizes, node layout or timing.
TEST(CommFold, sums_are_the_left_fold_bit_for_bit_with_exact_bytes) {
  bool order_matters = false;
  for (const std::int64_t size : sizes()) {
    const Interval chunk = own_chunk(size);
    const Tensor<float> sums = make_tensor<float>("sums", chunk.size());
    Kokkos::deep_copy(sums, std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t pass = 0; pass < 3; ++pass) {
      const Tensor<float> gradient = gradient_of(size, pass * world().size() + world().rank());
      const ByteCounts before = world().bytes();
      testing::reduce_evenly(world(), size, pass == 0, gradient, sums, label).wait();
      EXPECT_EQ(world().bytes()[Purpose::reduce] - before[Purpose::reduce], 4 * (size - chunk.size()));
      EXPECT_EQ(world().bytes().total() - before.total(), 4 * (size - chunk.size()));
      for (std::int64_t i = 0; i < chunk.size(); ++i) {
        const std::int64_t element = chunk.begin + i;
        ASSERT_EQ(sums(static_cast<std::size_t>(i)), folded(element, (pass + 1) * world().size()))
            << "size " << size << " pass " << pass << " element " << element;
      }
    }
    for (std::int64_t i = chunk.begin; i < chunk.end && !order_matters; ++i) {
      float backwards = 0;
      for (std::int64_t batch = 3 * world().size(); batch-- > 0;) {
        backwards += value_at(static_cast<std::uint64_t>(batch), i);
      }
      order_matters = backwards != folded(i, 3 * world().size());
    }
  }
  EXPECT_TRUE(order_matters) << "the values cannot show a wrong order";
}

// The first pass copies g_0: 0 + (-0) would be +0.
TEST(CommFold, the_first_pass_keeps_a_negative_zero) {
  const std::int64_t size = 100;
  const Tensor<float> gradient = make_tensor<float>("gradient", size);
  Kokkos::deep_copy(gradient, -0.0F);
  const Tensor<float> sums = make_zeros<float>("sums", own_chunk(size).size());
  testing::reduce_evenly(world(), size, true, gradient, sums, label).wait();
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_TRUE(std::signbit(sums(i)));
}

TEST(CommFold, reductions_and_gathers_run_side_by_side) {
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

// The plan's memory prediction uses this formula: it must be what is allocated.
TEST(CommFold, staging_is_what_the_formula_says) {
  for (const std::int64_t size : sizes()) {
    const Interval chunk = own_chunk(size);
    const Tensor<float> gradient = make_zeros<float>("gradient", size);
    const Tensor<float> sums = make_zeros<float>("sums", chunk.size());
    const test::CountAllocations allocations;
    Request request = testing::reduce_evenly(world(), size, true, gradient, sums, label);
    const std::int64_t allocated = allocations.bytes();
    request.wait();
    const Reduce even = prepare_reduce(CollectiveAlgorithm::direct, even_table(size, world().size()));
    const std::int64_t expected = reduce_staging_bytes(even, world().rank());
    EXPECT_EQ(allocated, (expected + 7) / 8 * 8) << "size " << size;  // Kokkos rounds up to 8
    EXPECT_EQ(expected, 4 * (world().size() - 1) * std::min<std::int64_t>(2 * exchange_block, chunk.size()));
  }
}

// A peer that cuts another size is an error, not silence (CASES 38, 39).
TEST(CommFold, ranks_with_different_sizes_get_an_error) {
  if (world().size() == 1) return;
  Communicator own = testing::duplicate_world();
  own.set_deadline(std::chrono::seconds(2));
  const std::int64_t size = 10 * own.size() + (own.rank() == 0 ? own.size() : 0);
  const Tensor<float> gradient = gradient_of(size, own.rank());
  const Tensor<float> sums = make_zeros<float>("sums", own_chunk(size).size());
  EXPECT_THROW(testing::reduce_evenly(own, size, true, gradient, sums, label).wait(), CommunicationError);
  world().barrier({"end of test", "", ""});
}

}  // namespace
}  // namespace matrixfsdp
