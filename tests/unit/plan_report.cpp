#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

using test::frozen;
using test::one_unit;
using test::parameter;

// The model of plan_layout.cpp: rank 0 owns `large` (24), rank 1 `small` (6), `fixed` (4, frozen) and the bias (5).
TEST(PlanReports, loads_by_hand) {
  const ModelSpec model = one_unit(
      {parameter("bias", {5}), parameter("small", {2, 3}), frozen("fixed", {2, 2}), parameter("large", {4, 6})});
  const PlanReport figures = report(model, test::plan_with(model, 2, Policy::role), {});
  const std::int64_t large = 6 * 24 + newton_schulz_flops(4, 6, 5, NewtonSchulzAlgorithm::gram);
  const std::int64_t small = 6 * 6 + newton_schulz_flops(2, 3, 5, NewtonSchulzAlgorithm::gram);
  ASSERT_EQ(figures.ranks.size(), 2U);
  EXPECT_EQ(figures.ranks[0].rank, 0);
  EXPECT_EQ(figures.ranks[0].owned_bytes, 24 * 12);
  EXPECT_EQ(figures.ranks[0].flops, large);
  EXPECT_EQ(figures.ranks[0].matrices, 1);
  EXPECT_EQ(figures.ranks[1].rank, 1);
  EXPECT_EQ(figures.ranks[1].owned_bytes, 6 * 12 + 4 * 4 + 5 * 16);
  EXPECT_EQ(figures.ranks[1].flops, small + 5 * 12);
  EXPECT_EQ(figures.ranks[1].matrices, 2);
  EXPECT_EQ(figures.replicated_bytes, 288 + 168);
  EXPECT_DOUBLE_EQ(figures.imbalance_bytes, 288.0 / 228);
  EXPECT_DOUBLE_EQ(figures.lower_bound_bytes, 288.0 / 228) << "the largest matrix";
  EXPECT_DOUBLE_EQ(figures.imbalance_flops, 2.0 * static_cast<double>(large) / static_cast<double>(large + small + 60));
  EXPECT_DOUBLE_EQ(figures.lower_bound_flops, figures.imbalance_flops);
  EXPECT_EQ(figures.spare_ranks, 0);
  ASSERT_EQ(figures.gamma.size(), 1U);
  EXPECT_DOUBLE_EQ(figures.gamma[0], 48.0 / 39);
}

TEST(PlanReports, a_cut_tail_counts_by_its_elements) {
  const ModelSpec model = one_unit({test::embedding("table", {4, 4096})});
  const PlanReport figures = report(model, make_plan(model, 4), {});
  for (const RankLoad& rank : figures.ranks) {
    EXPECT_EQ(rank.owned_bytes, 16 * 4096);
    EXPECT_EQ(rank.flops, 12 * 4096);
    EXPECT_EQ(rank.matrices, 0);
  }
  EXPECT_DOUBLE_EQ(figures.imbalance_bytes, 1.0);
  EXPECT_DOUBLE_EQ(figures.lower_bound_flops, 1.0);
  EXPECT_EQ(figures.spare_ranks, 4);
}

TEST(PlanReports, a_replicated_plan_needs_everything_everywhere) {
  const ModelSpec model = one_unit({parameter("w", {4, 6}), parameter("b", {5})});
  const PlanReport figures = report(model, make_replicated_plan(model, 3), {});
  ASSERT_EQ(figures.ranks.size(), 3U);
  for (const RankLoad& rank : figures.ranks) {
    EXPECT_EQ(rank.owned_bytes, 24 * 12 + 5 * 16);
    EXPECT_EQ(rank.owned_bytes, figures.replicated_bytes);
    EXPECT_EQ(rank.flops, 6 * 24 + newton_schulz_flops(4, 6, 5, NewtonSchulzAlgorithm::gram) + 60);
    EXPECT_EQ(rank.matrices, 1);
  }
  EXPECT_DOUBLE_EQ(figures.imbalance_bytes, 1.0);
  EXPECT_DOUBLE_EQ(figures.imbalance_flops, 1.0);
  EXPECT_EQ(figures.spare_ranks, 0);
}

TEST(PlanReports, the_optimizer_is_the_one_that_is_asked_for) {
  const ModelSpec model = one_unit({parameter("w", {4, 6})});
  MemoryOptions options;
  options.optimizer.matrices = MatrixOptimizer::adamw;
  const PlanReport figures = report(model, make_plan(model, 1), options);
  EXPECT_EQ(figures.ranks[0].owned_bytes, 24 * 16);
  EXPECT_EQ(figures.ranks[0].flops, 24 * 12);
}

/// A kept root of 100 elements (10 of them frozen), blocks of 60, 80 and 70.
ModelSpec window_model() {
  ModelSpec model;
  model.units.push_back({"root", {parameter("r", {90}), frozen("f", {10})}, true});
  int index = 0;
  for (const std::int64_t size : {60, 80, 70}) {
    const std::string name = "b" + std::to_string(index++);
    model.units.push_back({name, {parameter(name + ".w", {10, size / 10})}, false});
  }
  return model;
}

std::int64_t window(const ModelSpec& model, const Plan& plan, int rank, int prefetch, std::int64_t passes,
                    bool unsharded, int in_flight = 0, const UnitPolicies& policies = {}) {
  MemoryOptions options;
  options.reduces_in_flight = in_flight;
  options.policies = policies;
  options.prefetch = prefetch;
  options.passes = passes;
  options.unsharded_accumulation = unsharded;
  return report(model, plan, options).ranks.at(static_cast<std::size_t>(rank)).window_bytes;
}

// Each unit lies whole on one of 3 ranks, P elements. One pass: the owner receives P when it sums none itself, the two
// others P each when they sum a half, so halves they are: 45 of r, 30, 40, 35. Four passes, 8 copies: with 24 of r at
// the owner, which then receives 8 * 24 + 66 = 258, and 33 at the others (264) the most is least; likewise 16 and 22 of
// 60, 22 and 29 of 80, 19 and 26 (the last rank 25) of 70. Rank 0 owns r, rank 1 the 80.
TEST(PlanWindow, by_hand) {
  const ModelSpec model = window_model();
  const Plan plan = make_plan(model, 3);
  ASSERT_EQ(plan.units[0].gradients.shard_size(0), 90);
  ASSERT_EQ(plan.owner(2, 0), 1);
  const std::int64_t staging = 4 * 2 * 45;
  EXPECT_EQ(window(model, plan, 1, 0, 1, false), 4 * (80 + 100 + 80 + 90 + 45) + staging);
  EXPECT_EQ(window(model, plan, 1, 1, 1, false), 4 * (2 * 80 + 100 + 80 + 90 + 45) + staging);
  EXPECT_EQ(window(model, plan, 1, 2, 1, false), 4 * (3 * 80 + 100 + 80 + 90 + 45) + staging);
  EXPECT_EQ(window(model, plan, 1, 9, 1, false), 4 * (3 * 80 + 100 + 80 + 90 + 45) + staging)
      << "no more slots than units";
  EXPECT_EQ(window(model, plan, 1, 1, 4, false), 4 * (160 + 100 + 80 + 90 + (33 + 22 + 26)) + 4 * 2 * 33);
  EXPECT_EQ(window(model, plan, 1, 1, 4, true), 4 * (160 + 100 + (90 + 60 + 80 + 70) + 45) + staging);
  EXPECT_EQ(window(model, plan, 1, 1, 1, true), window(model, plan, 1, 1, 4, true));
  EXPECT_EQ(window(model, plan, 0, 1, 4, false), 4 * (160 + 100 + 80 + 90 + (22 + 29 + 26)) + 4 * 2 * 29);
}

// Each reduce under way has a gradient buffer, and while there is one pass its sums; and staging.
TEST(PlanWindow, reduces_in_flight_by_hand) {
  const ModelSpec model = window_model();
  const Plan plan = make_plan(model, 3);
  const std::int64_t unsharded = 2 * 80 + 100;
  const std::int64_t staging = 2 * 45;
  EXPECT_EQ(window(model, plan, 1, 1, 1, false, 1), 4 * (unsharded + 2 * 80 + 90 + 45 + staging));
  EXPECT_EQ(window(model, plan, 1, 1, 1, false, 2), 4 * (unsharded + 3 * 80 + 90 + 2 * 45 + 2 * staging));
  EXPECT_EQ(window(model, plan, 1, 1, 1, false, 4), 4 * (unsharded + 3 * 80 + 90 + 4 * 45 + 4 * staging))
      << "no more buffers than units";
  EXPECT_EQ(window(model, plan, 1, 1, 4, false, 2), 4 * (unsharded + 3 * 80 + 90 + (33 + 22 + 26) + 2 * 2 * 33));
  const Plan alone = make_plan(model, 1);
  EXPECT_EQ(window(model, alone, 0, 1, 1, false, 3), 4 * (80 + 90)) << "nobody to wait for";
}

TEST(PlanWindow, resident_weights_need_no_unsharded_storage) {
  const ModelSpec model = window_model();
  const Plan replicated = make_replicated_plan(model, 3);
  EXPECT_EQ(window(model, replicated, 1, 1, 1, false), 4 * (80 + 90) + 4 * 2 * 30) << "sums stand in the gradient";
  EXPECT_EQ(window(model, replicated, 1, 1, 2, false), 4 * (80 + 90) + 4 * 2 * 30);
  // One rank: there is nobody to exchange with.
  const Plan alone = make_plan(model, 1);
  EXPECT_EQ(window(model, alone, 0, 1, 1, false), 4 * (80 + 90));
  EXPECT_EQ(window(model, alone, 0, 1, 5, false), 4 * (80 + 90));
  EXPECT_EQ(window(model, alone, 0, 1, 5, true), 4 * (90 + 60 + 80 + 70));
}

// The model of by_hand, gradients of 2 bytes, sums of 4. One pass: a helper's sum costs its owner what the two copies
// cost, so owners sum all they own. Four passes, 8 copies: the most is least where the owner of r takes 18 of the 90
// (8 * 18 + 2 * 72 = 288) and the others 36 (288); likewise 12 and 24 of 60, 16 and 32 of 80, 14 and 28 of 70.
TEST(PlanWindow, gradients_that_travel_as_bfloat16) {
  const ModelSpec model = window_model();
  const Plan plan = make_plan(model, 3);
  const UnitPolicies half{{DType::float32, DType::bfloat16}, {}};
  EXPECT_EQ(window(model, plan, 1, 1, 1, false, 0, half), 4 * (160 + 100 + 80 + 90) + 2 * 2 * 80);
  EXPECT_EQ(window(model, plan, 1, 1, 4, false, 0, half), 4 * (160 + 100 + 80 + 90 + (36 + 24 + 28)) + 2 * 2 * 36);
  UnitPolicies one;
  one.by_unit["b0"].reduce_dtype = DType::bfloat16;
  EXPECT_EQ(window(model, plan, 1, 1, 4, false, 0, one), 4 * (160 + 100 + 80 + 90 + (33 + 24 + 26)) + 4 * 2 * 33);
}

// Widened weights take the place of float32 ones; where those are resident, they need storage.
TEST(PlanWindow, weights_that_are_rounded) {
  const ModelSpec model = window_model();
  const UnitPolicies all{{DType::bfloat16, DType::float32}, {}};
  const Plan plan = make_plan(model, 3);
  EXPECT_EQ(window(model, plan, 1, 1, 1, false, 0, all), window(model, plan, 1, 1, 1, false));
  const Plan replicated = make_replicated_plan(model, 3);
  EXPECT_EQ(window(model, replicated, 1, 1, 1, false, 0, all), 4 * (2 * 80 + 100 + 80 + 90) + 4 * 2 * 30);
  UnitPolicies some;
  some.by_unit["b2"].param_dtype = DType::bfloat16;
  EXPECT_EQ(window(model, make_plan(model, 1), 0, 1, 1, false, 0, some), 4 * (70 + 80 + 90)) << "one slot is enough";
  some.by_unit["root"].param_dtype = DType::bfloat16;
  EXPECT_EQ(window(model, make_plan(model, 1), 0, 1, 1, false, 0, some), 4 * (70 + 100 + 80 + 90));
}

TEST(PlanWindow, staging_is_two_blocks_per_peer_at_most) {
  const ModelSpec model = one_unit({parameter("v", {5 * 4 * 65536})});
  const Plan plan = make_plan(model, 5);
  const std::int64_t size = 5 * 4 * 65536;
  EXPECT_EQ(window(model, plan, 2, 0, 1, false), 4 * (size + size) + 4 * 4 * 65536) << "evenly owned: each its own";
}

TEST(PlanWindow, bad_options) {
  const ModelSpec model = window_model();
  const Plan plan = make_plan(model, 3);
  EXPECT_THROW(window(model, plan, 0, -1, 1, false), ContractError);
  EXPECT_THROW(window(model, plan, 0, 1, 0, false), ContractError);
  EXPECT_THROW(window(model, plan, 0, 1, 1, false, -1), ContractError);
  Plan damaged = plan;
  damaged.units[0].weights.segments.clear();
  EXPECT_THROW(window(model, damaged, 0, 1, 1, false), ContractError);
}

TEST(PlanText, a_table_with_the_bound_beside_what_was_reached) {
  const ModelSpec model = one_unit({parameter("a", {6, 4}), parameter("b", {4, 4}), parameter("c", {5, 4})});
  const Plan plan = test::plan_with(model, 8, Policy::balanced);
  const PlanReport figures = report(model, plan, {});
  const std::string text = to_text(model, plan, figures, 3);
  for (const char* said : {"planner balanced", "8 ranks", "lower bound", "3.2000", "5 spare ranks", "5 more ranks"})
    EXPECT_NE(text.find(said), std::string::npos) << said << " in\n" << text;
  const std::string all = to_text(model, plan, figures, 8);
  EXPECT_EQ(all.find("more ranks"), std::string::npos) << all;
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n') - std::count(text.begin(), text.end(), '\n'), 5 - 1);
  EXPECT_EQ(to_text(model, plan, figures), all);
  EXPECT_NE(to_text({}, make_plan({}, 1), report({}, make_plan({}, 1), {})).find("1 rank,"), std::string::npos);
}

}  // namespace
}  // namespace matrixfsdp
