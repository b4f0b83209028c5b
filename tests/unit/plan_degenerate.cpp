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

struct Case {
  const char* name;
  ModelSpec model;
};

std::vector<Case> degenerate_models() {
  ParameterSpec row = parameter("row", {1, 64});
  row.kind = ParameterKind::matrix;
  ModelSpec empty_unit;
  empty_unit.units.push_back({"nothing", {}, true});
  return {
      {"no units", {}},
      {"a unit without parameters", empty_unit},
      {"no matrices", one_unit({parameter("a", {5}), parameter("b", {4097})})},
      {"no tails", one_unit({parameter("a", {5, 3}), parameter("b", {3, 5})})},
      {"all frozen", one_unit({frozen("a", {5, 3}), frozen("b", {9000})})},
      {"only empty parameters", one_unit({parameter("a", {0, 8}), frozen("b", {0})})},
      {"empty among others", one_unit({parameter("a", {0, 8}), parameter("b", {4, 4}), parameter("c", {0})})},
      {"a scalar", one_unit({parameter("a", {})})},
      {"one matrix", one_unit({parameter("a", {7, 7})})},
      {"a row as a matrix by override", one_unit({row})},
      {"experts", one_unit({parameter("experts", {8, 6, 4}), parameter("router", {8, 6})})},
  };
}

TEST(DegeneratePlans, every_policy_and_every_world_size) {
  for (const Case& c : degenerate_models()) {
    for (const int ranks : {1, 2, 3, 4, 7, 8, 64}) {
      for (const Policy policy : test::all_policies) {
        for (const TailPlacement tails : test::all_tail_placements) {
          SCOPED_TRACE(testing::Message() << c.name << ", W = " << ranks << ", " << name_of(policy));
          const Plan plan = test::plan_with(c.model, ranks, policy, tails);
          const PlanReport figures = report(c.model, plan, {});
          std::int64_t bytes = 0;
          for (const RankLoad& rank : figures.ranks)
            bytes += rank.owned_bytes;
          EXPECT_EQ(bytes, figures.replicated_bytes);
          EXPECT_GE(figures.imbalance_bytes, figures.lower_bound_bytes * (1 - 1e-12));
          EXPECT_GE(figures.imbalance_flops, figures.lower_bound_flops * (1 - 1e-12));
          for (const double gamma : figures.gamma)
            EXPECT_GE(gamma, 1.0 - 1e-12);
        }
      }
      EXPECT_NO_THROW(make_replicated_plan(c.model, ranks)) << c.name;
    }
  }
}

// CASES 6, 5: spare ranks own nothing, which is a plan like any other. CASES 2: the others own one matrix each.
TEST(DegeneratePlans, three_matrices_on_eight_ranks) {
  const ModelSpec model = one_unit({parameter("a", {6, 4}), parameter("b", {4, 4}), parameter("c", {5, 4})});
  for (const Policy policy : test::all_policies) {
    const Plan plan = test::plan_with(model, 8, policy);
    const PlanReport figures = report(model, plan, {});
    EXPECT_EQ(figures.spare_ranks, 5) << name_of(policy);
    std::int64_t matrices = 0;
    for (const RankLoad& rank : figures.ranks) {
      EXPECT_LE(rank.matrices, 1);
      EXPECT_EQ(rank.matrices == 0, rank.owned_bytes == 0);
      matrices += rank.matrices;
    }
    EXPECT_EQ(matrices, 3);
    EXPECT_DOUBLE_EQ(figures.imbalance_bytes, 24.0 * 8 / 60);
    EXPECT_DOUBLE_EQ(figures.lower_bound_bytes, figures.imbalance_bytes);
  }
}

// CASES 8: (5, 3) owned by rank 2 of 4 is whole there and empty elsewhere.
TEST(DegeneratePlans, an_owner_in_the_middle_has_all_of_the_matrix) {
  const ModelSpec model =
      one_unit({parameter("a", {9, 9}), parameter("b", {8, 8}), parameter("c", {5, 3}), parameter("d", {2, 2})});
  const Plan plan = test::plan_with(model, 4, Policy::role);
  EXPECT_EQ(plan.owner(0, 2), 2);
  const MatrixShard& weights = plan.units[0].weights;
  EXPECT_EQ(weights.owned[2], (Interval{81 + 64, 81 + 64 + 15}));
  EXPECT_EQ(weights.shard_size(2), 15);
}

// CASES 4: whichever way the rule decides, it does not ask W.
TEST(DegeneratePlans, rows_and_columns_are_tails_for_every_world_size) {
  const ModelSpec model = one_unit({parameter("row", {1, 9000}), parameter("column", {9000, 1})});
  for (const int ranks : {1, 2, 8}) {
    const Plan plan = test::plan_with(model, ranks, Policy::balanced);
    for (const Interval owned : plan.units[0].weights.owned)
      EXPECT_TRUE(owned.empty());
    EXPECT_THROW(static_cast<void>(plan.owner(0, 0)), ContractError);
  }
}

// CASES 7
TEST(DegeneratePlans, empty_parameters_have_no_segment_and_a_valid_offset) {
  const ModelSpec model = one_unit({parameter("none", {0, 8}), parameter("a", {3, 3}), parameter("nil", {0})});
  const Plan plan = test::plan_with(model, 2, Policy::balanced);
  for (const MatrixShard* shard : {&plan.units[0].weights, &plan.units[0].gradients}) {
    ASSERT_EQ(shard->segments.size(), 1U);
    EXPECT_EQ(shard->segments[0].parameter, 1U);
    for (const std::size_t p : {std::size_t{0}, std::size_t{2}}) {
      EXPECT_GE(shard->parameter_offsets[p], 0);
      EXPECT_LE(shard->parameter_offsets[p], shard->size);
    }
  }
}

// A batch of experts is one parameter: whole on one rank, however many matrices it has.
TEST(DegeneratePlans, experts_stay_together) {
  const ModelSpec model = one_unit({parameter("experts", {8, 6, 4})});
  EXPECT_EQ(matrix_count(model), 8);
  const Plan plan = test::plan_with(model, 4, Policy::balanced);
  ASSERT_EQ(plan.units[0].weights.segments.size(), 1U);
  EXPECT_EQ(plan.units[0].weights.segments[0].elements, (Interval{0, 192}));
}

TEST(DegeneratePlans, bad_input) {
  const ModelSpec model = one_unit({parameter("a", {3, 3})});
  for (const int ranks : {0, -1}) {
    const std::string message = test::message_of<InputError>([&] { make_plan(model, ranks); });
    EXPECT_NE(message.find(std::to_string(ranks)), std::string::npos) << message;
    EXPECT_THROW(make_replicated_plan(model, ranks), InputError);
  }
  EXPECT_THROW(make_plan(one_unit({parameter("a", {-3, 3})}), 2), InputError);
  EXPECT_THROW(make_replicated_plan(one_unit({parameter("", {3, 3})}), 2), InputError);
  PlannerOptions options;
  options.workspace_cap = 0.5;
  EXPECT_THROW(make_plan(model, 2, options), InputError);
  const std::string message = test::message_of<InputError>([] { parse_policy("best"); });
  for (const char* said : {"'best'", "role", "scope", "cost", "balanced"})
    EXPECT_NE(message.find(said), std::string::npos) << message;
  for (const Policy policy : test::all_policies)
    EXPECT_EQ(parse_policy(name_of(policy)), policy);
}

}  // namespace
}  // namespace matrixfsdp
