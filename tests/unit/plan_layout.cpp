#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "unit/plan_models.hpp"

// Small plans, written out by hand.
namespace matrixfsdp {
namespace {

using test::frozen;
using test::one_unit;
using test::parameter;
using test::plan_with;

struct Expected {
  std::size_t parameter;
  Interval elements;
  int rank;
  std::int64_t offset;
};

void expect_segments(const MatrixShard& shard, const std::vector<Expected>& expected) {
  ASSERT_EQ(shard.segments.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(shard.segments[i].parameter, expected[i].parameter) << i;
    EXPECT_EQ(shard.segments[i].elements, expected[i].elements) << i;
    EXPECT_EQ(shard.segments[i].rank, expected[i].rank) << i;
    EXPECT_EQ(shard.segments[i].offset, expected[i].offset) << i;
  }
}

using Intervals = std::vector<Interval>;
using Offsets = std::vector<std::int64_t>;

// Bytes: bias 5 * 16 = 80, small 6 * 12 = 72, fixed 4 * 4 = 16, large 24 * 12 = 288. By role: large to 0, small to 1,
// fixed to 1 (more matrices than ranks: no preference); the bias fills rank 1, which has room below 288.
TEST(PlanLayout, two_ranks_with_a_frozen_matrix_by_hand) {
  const ModelSpec model = one_unit(
      {parameter("bias", {5}), parameter("small", {2, 3}), frozen("fixed", {2, 2}), parameter("large", {4, 6})});
  const Plan plan = plan_with(model, 2, Policy::role);
  const UnitPlan& unit = plan.units[0];
  EXPECT_EQ(plan.planner, "role");
  EXPECT_EQ(plan.world_size, 2);
  EXPECT_FALSE(plan.replicated);

  EXPECT_EQ(unit.weights.size, 39);
  expect_segments(unit.weights, {{3, {0, 24}, 0, 0}, {1, {0, 6}, 1, 24}, {2, {0, 4}, 1, 30}, {0, {0, 5}, 1, 34}});
  EXPECT_EQ(unit.weights.parameter_offsets, (Offsets{34, 24, 30, 0}));
  EXPECT_EQ(unit.weights.owned, (Intervals{{0, 24}, {24, 34}}));
  EXPECT_EQ(unit.weights.tails, (Intervals{{34, 34}, {34, 39}}));
  EXPECT_EQ(unit.weights.shard_size(0), 24);
  EXPECT_EQ(unit.weights.shard_size(1), 15);

  EXPECT_EQ(unit.gradients.size, 35);
  expect_segments(unit.gradients, {{3, {0, 24}, 0, 0}, {1, {0, 6}, 1, 24}, {0, {0, 5}, 1, 30}});
  EXPECT_EQ(unit.gradients.parameter_offsets, (Offsets{30, 24, -1, 0}));
  EXPECT_EQ(unit.gradients.owned, (Intervals{{0, 24}, {24, 30}}));
  EXPECT_EQ(unit.gradients.tails, (Intervals{{30, 30}, {30, 35}}));

  EXPECT_DOUBLE_EQ(unit.gamma, 24.0 * 2 / 39);
  EXPECT_EQ(plan.owner(0, 3), 0);
  EXPECT_EQ(plan.owner(0, 1), 1);
  EXPECT_EQ(plan.owner(0, 2), 1);
  EXPECT_THROW(static_cast<void>(plan.owner(0, 0)), ContractError) << "a tail has no owner";
  EXPECT_THROW(static_cast<void>(plan.owner(0, 4)), ContractError);
  EXPECT_THROW(static_cast<void>(plan.owner(1, 0)), ContractError);
}

// 12388 elements over 4 ranks: 3097 each, moved to the nearest block boundary (4096, 8192, 8192).
TEST(PlanLayout, tails_are_cut_at_norm_blocks) {
  const ModelSpec model = one_unit({test::embedding("table", {3, 4096}), parameter("vector", {100})});
  const Plan plan = plan_with(model, 4, Policy::balanced);
  const MatrixShard& weights = plan.units[0].weights;
  expect_segments(
      weights,
      {{0, {0, 4096}, 0, 0}, {0, {4096, 8192}, 1, 4096}, {0, {8192, 12288}, 3, 8192}, {1, {0, 100}, 3, 12288}});
  EXPECT_EQ(weights.owned, (Intervals{{0, 0}, {0, 0}, {0, 0}, {0, 0}}));
  EXPECT_EQ(weights.tails, (Intervals{{0, 4096}, {4096, 8192}, {8192, 8192}, {8192, 12388}}));
  EXPECT_EQ(plan.units[0].gradients.tails, weights.tails);
  EXPECT_DOUBLE_EQ(plan.units[0].gamma, 4196.0 * 4 / 12388);
}

// A cut that falls into a frozen tail must not shift the trainable ones between the two buffers.
TEST(PlanLayout, frozen_tails_are_cut_with_the_others_and_left_out_of_gradients) {
  const ModelSpec model =
      one_unit({parameter("a", {2 * 4096}), frozen("fixed", {8 * 4096}), parameter("b", {2 * 4096 + 7})});
  const Plan plan = plan_with(model, 3, Policy::balanced, TailPlacement::spread);
  // Bytes per element 16, 4, 16: blocks of a and b weigh 4, those of `fixed` 1. 24 in all (b's 7 elements apart).
  expect_segments(plan.units[0].weights,
                  {{0, {0, 8192}, 0, 0}, {1, {0, 8 * 4096}, 1, 8192}, {2, {0, 8199}, 2, 10 * 4096}});
  expect_segments(plan.units[0].gradients, {{0, {0, 8192}, 0, 0}, {2, {0, 8199}, 2, 8192}});
  EXPECT_EQ(plan.units[0].gradients.parameter_offsets, (Offsets{0, -1, 8192}));
  EXPECT_EQ(plan.units[0].gradients.tails, (Intervals{{0, 8192}, {8192, 8192}, {8192, 16391}}));
}

TEST(PlanLayout, packed_tails_lie_whole_in_rank_order) {
  const ModelSpec model =
      one_unit({parameter("a", {10}), parameter("b", {30}), parameter("c", {20}), parameter("d", {15})});
  const Plan plan = plan_with(model, 2, Policy::balanced, TailPlacement::packed);
  // Largest first: b 30 to 0, c 20 to 1, d 15 to 1, a 10 to 0.
  expect_segments(plan.units[0].weights,
                  {{0, {0, 10}, 0, 0}, {1, {0, 30}, 0, 10}, {2, {0, 20}, 1, 40}, {3, {0, 15}, 1, 60}});
  EXPECT_EQ(plan.units[0].weights.tails, (Intervals{{0, 40}, {40, 75}}));
}

TEST(PlanLayout, matrices_of_one_rank_lie_in_parameter_order) {
  const ModelSpec model = one_unit({parameter("a", {2, 2}), parameter("b", {4, 4}), parameter("c", {3, 3})});
  const Plan plan = plan_with(model, 1, Policy::balanced);
  expect_segments(plan.units[0].weights, {{0, {0, 4}, 0, 0}, {1, {0, 16}, 0, 4}, {2, {0, 9}, 0, 20}});
  EXPECT_DOUBLE_EQ(plan.units[0].gamma, 1.0);
}

TEST(PlanLayout, a_replicated_plan_holds_everything_and_folds_in_chunks) {
  const ModelSpec model = one_unit({parameter("a", {2, 5}), frozen("fixed", {3}), parameter("b", {4})});
  const Plan plan = make_replicated_plan(model, 3);
  EXPECT_EQ(plan.planner, "replicated");
  EXPECT_TRUE(plan.replicated);
  const UnitPlan& unit = plan.units[0];
  EXPECT_EQ(unit.weights.size, 17);
  EXPECT_EQ(unit.weights.parameter_offsets, (Offsets{0, 10, 13}));
  EXPECT_EQ(unit.weights.owned, (Intervals{{0, 5}, {5, 11}, {11, 17}}));
  EXPECT_EQ(unit.weights.tails, (Intervals{{17, 17}, {17, 17}, {17, 17}}));
  EXPECT_EQ(unit.gradients.size, 14);
  EXPECT_EQ(unit.gradients.parameter_offsets, (Offsets{0, -1, 10}));
  EXPECT_EQ(unit.gradients.owned, (Intervals{{0, 4}, {4, 9}, {9, 14}}));
  expect_segments(unit.gradients, {{0, {0, 4}, 0, 0}, {0, {4, 9}, 1, 4}, {0, {9, 10}, 2, 9}, {2, {0, 4}, 2, 10}});
  EXPECT_DOUBLE_EQ(unit.gamma, 1.0);
  EXPECT_THROW(static_cast<void>(plan.owner(0, 0)), ContractError);
}

TEST(FoldChunks, are_the_even_cut) {
  EXPECT_EQ(fold_chunk(10, 0, 4), (Interval{0, 2}));
  EXPECT_EQ(fold_chunk(10, 1, 4), (Interval{2, 5}));
  EXPECT_EQ(fold_chunk(10, 2, 4), (Interval{5, 7}));
  EXPECT_EQ(fold_chunk(10, 3, 4), (Interval{7, 10}));
  EXPECT_EQ(fold_chunk(0, 2, 3), (Interval{0, 0}));
  for (const std::int64_t size : {0, 1, 5, 63, 64, 65, 1000003}) {
    for (const int ranks : {1, 2, 3, 7, 64}) {
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(fold_chunk(size, rank, ranks), (Interval{size * rank / ranks, size * (rank + 1) / ranks}));
      }
    }
  }
  // size * rank does not fit 64 bits.
  constexpr std::int64_t huge = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(fold_chunk(huge, 63, 64), (Interval{(std::int64_t{1} << 62) / 64 * 63, huge}));
  EXPECT_THROW(fold_chunk(10, 4, 4), ContractError);
  EXPECT_THROW(fold_chunk(10, -1, 4), ContractError);
  EXPECT_THROW(fold_chunk(-1, 0, 4), ContractError);
  EXPECT_THROW(fold_chunk(10, 0, 0), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
