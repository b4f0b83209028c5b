#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>

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
    for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter}) {
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

TEST(PlanReduce, bad_input_is_refused) {
  EXPECT_THROW(prepare_reduce(CollectiveAlgorithm::chain, owners({1, 2})), ContractError);
  EXPECT_THROW(prepare_reduce(CollectiveAlgorithm::scatter, owners({1, 2}), 0), ContractError);
  SegmentTable gap = owners({1, 2});
  ++gap.size;
  EXPECT_THROW(prepare_reduce(CollectiveAlgorithm::scatter, gap), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
