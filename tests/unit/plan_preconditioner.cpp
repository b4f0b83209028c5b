#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/strategy.hpp>
#include <matrixfsdp/plan/topology.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "plan_models.hpp"

namespace matrixfsdp {
namespace {

constexpr MatrixOptimizer factored[] = {MatrixOptimizer::shampoo, MatrixOptimizer::soap};

OptimizerCost cost_for(MatrixOptimizer optimizer) {
  OptimizerCost cost;
  cost.matrices = optimizer;
  return cost;
}

TEST(MatrixOptimizerNames, are_read_and_written) {
  const char* names[] = {"muon", "shampoo", "soap", "adamw"};
  ASSERT_EQ(matrix_optimizers().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(name_of(matrix_optimizers()[i]), names[i]);
    EXPECT_EQ(parse_matrix_optimizer(names[i]), matrix_optimizers()[i]);
  }
  for (const Grafting grafting : {Grafting::none, Grafting::sgd, Grafting::adam})
    EXPECT_EQ(parse_grafting(name_of(grafting)), grafting);
  EXPECT_NE(test::message_of<InputError>([] { parse_matrix_optimizer("sopa"); }).find("'sopa'"), std::string::npos);
  EXPECT_NE(test::message_of<InputError>([] { parse_grafting("adamw"); }).find("'adamw'"), std::string::npos);
}

TEST(PreconditionerCost, is_checked) {
  PreconditionerCost cost;
  EXPECT_NO_THROW(validate(cost));
  cost.frequency = 0;
  EXPECT_NE(test::message_of<InputError>([&] { validate(cost); }).find("frequency 0"), std::string::npos);
  cost = {};
  cost.block_size = most_factor_extent + 1;
  EXPECT_NE(test::message_of<InputError>([&] { validate(cost); }).find("block size 32001"), std::string::npos);
  cost = {};
  cost.largest_dimension = 0;
  EXPECT_NE(test::message_of<InputError>([&] { validate(cost); }).find("dimension 0"), std::string::npos);
}

// Written out product by product for 3 x 5.
TEST(PreconditionerFlops, of_shampoo) {
  const std::int64_t factors = 3 * 4 * 5 + 5 * 6 * 3;        // one triangle of G G^T and of G^T G
  const std::int64_t roots = 2 * 3 * 3 * 5 + 2 * 3 * 5 * 5;  // A M, and that times B
  const std::int64_t refresh = 9 * 27 + 3 * 4 * 3 + 9 * 125 + 5 * 6 * 5;
  PreconditionerCost cost;
  PreconditionerFlops flops = preconditioner_flops(3, 5, MatrixOptimizer::shampoo, cost);
  EXPECT_EQ(flops.step, factors + roots + 16 * 15);
  EXPECT_EQ(flops.refresh, refresh);
  cost.grafting = Grafting::none;
  flops = preconditioner_flops(3, 5, MatrixOptimizer::shampoo, cost);
  EXPECT_EQ(flops.step, factors + roots + 8 * 15);
}

TEST(PreconditionerFlops, of_soap) {
  const std::int64_t factors = 3 * 4 * 5 + 5 * 6 * 3;
  const std::int64_t rotation = 2 * 3 * 3 * 5 + 2 * 3 * 5 * 5;
  const std::int64_t refresh = 2 * 27 + 2 * 9 + 72 + 2 * 125 + 2 * 25 + 333;  // 8 k^3 / 3, rounded down
  const PreconditionerFlops flops = preconditioner_flops(3, 5, MatrixOptimizer::soap, {});
  EXPECT_EQ(flops.step, factors + 2 * rotation + 14 * 15);
  EXPECT_EQ(flops.refresh, refresh + 2 * rotation);
}

TEST(PreconditionerFlops, refuses_others_and_what_does_not_fit) {
  EXPECT_THROW(preconditioner_flops(3, 5, MatrixOptimizer::muon, {}), ContractError);
  EXPECT_THROW(preconditioner_scratch(test::parameter("w", {3, 5}), MatrixOptimizer::adamw, {}), ContractError);
  for (const MatrixOptimizer optimizer : factored)
    EXPECT_THROW(preconditioner_flops(1 << 30, 1 << 30, optimizer, {}), InputError);
}

TEST(StepCost, shares_the_refresh_among_steps) {
  for (const MatrixOptimizer optimizer : factored) {
    OptimizerCost cost = cost_for(optimizer);
    const PreconditionerFlops one = preconditioner_flops(12, 7, optimizer, {});
    for (const std::int64_t frequency : {1, 3, 10, 100}) {
      cost.preconditioner.frequency = frequency;
      EXPECT_EQ(step_flops(test::parameter("w", {12, 7}), cost), one.step + one.refresh / frequency);
      EXPECT_EQ(step_flops(test::parameter("w", {3, 12, 7}), cost), 3 * one.step + 3 * one.refresh / frequency);
    }
    EXPECT_EQ(step_flops(test::frozen("f", {12, 7}), cost), 0);
    EXPECT_EQ(step_flops(test::parameter("b", {20}), cost), 240) << "tails are AdamW's";
  }
}

TEST(StateBytes, are_those_of_moments_and_factors) {
  const ParameterSpec w = test::parameter("w", {3, 5});
  OptimizerCost cost = cost_for(MatrixOptimizer::soap);
  EXPECT_EQ(state_bytes(w, 15, cost), 4 * (2 * 15 + 2 * (9 + 25) + 1));
  EXPECT_EQ(resident_bytes(w, 15, cost), 8 * 15 + state_bytes(w, 15, cost));
  EXPECT_EQ(state_bytes(test::parameter("b", {20}), 7, cost), 56);
  EXPECT_EQ(state_bytes(test::parameter("none", {0, 5}), 0, cost), 0);
  cost.matrices = MatrixOptimizer::shampoo;
  EXPECT_EQ(state_bytes(w, 15, cost), 4 * (2 * 15 + 2 * (9 + 25) + 2));
  cost.preconditioner.grafting = Grafting::sgd;
  EXPECT_EQ(state_bytes(w, 15, cost), 4 * (15 + 2 * (9 + 25) + 2));
  cost.preconditioner.block_size = 2;  // rows 2 + 1, columns 2 + 2 + 1
  EXPECT_EQ(state_bytes(w, 15, cost), 4 * (15 + 2 * (3 * (4 + 1) + 2 * (4 + 4 + 1)) + 2));
  EXPECT_THROW(state_bytes(w, 10, cost), ContractError) << "a part of a matrix has no factors";
}

TEST(PreconditionedBlocks, are_a_grid) {
  PreconditionerCost cost;
  cost.block_size = 4;
  const auto blocks = preconditioned_blocks(test::parameter("w", {5, 9}), MatrixOptimizer::shampoo, cost);
  const std::int64_t expected[6][3] = {{0, 4, 4}, {4, 4, 4}, {8, 4, 1}, {36, 1, 4}, {40, 1, 4}, {44, 1, 1}};
  ASSERT_EQ(blocks.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(blocks[i].offset, expected[i][0]) << i;
    EXPECT_EQ(blocks[i].rows, expected[i][1]) << i;
    EXPECT_EQ(blocks[i].cols, expected[i][2]) << i;
    EXPECT_EQ(blocks[i].stride, 9) << i;
  }
  EXPECT_EQ(preconditioned_blocks(test::parameter("w", {5, 9}), MatrixOptimizer::soap, cost).size(), 1U);
}

TEST(OptimizerOf, goes_by_the_extents_of_parts) {
  for (const MatrixOptimizer optimizer : factored) {
    OptimizerCost cost = cost_for(optimizer);
    cost.preconditioner.largest_dimension = 8;
    ParameterSpec fused = test::parameter("qkv", {12, 8});
    EXPECT_EQ(optimizer_of(fused, cost), MatrixOptimizer::adamw);
    fused.blocks = {0, {"q", "k", "v"}, {4, 4, 4}};
    EXPECT_EQ(optimizer_of(fused, cost), optimizer);
    EXPECT_EQ(optimizer_of(test::parameter("b", {4}), cost), MatrixOptimizer::adamw);
    const ParameterSpec large = test::parameter("large", {9, 2});
    EXPECT_EQ(state_bytes(large, 18, cost), 8 * 18);
    EXPECT_EQ(step_flops(large, cost), 12 * 18);
    const ModelSpec model = test::one_unit({fused, large, test::parameter("w", {2, 8}), test::parameter("b", {4})});
    EXPECT_EQ(stepped_matrix_count(model, cost), 4);
    MatrixScratch scratch;
    scratch.include(large, cost);
    EXPECT_EQ(scratch.bytes(), 0);
  }
  EXPECT_EQ(optimizer_of(test::parameter("w", {1 << 20, 2}), cost_for(MatrixOptimizer::muon)), MatrixOptimizer::muon);
}

// Row shards give no rank a whole matrix.
TEST(Supports, owners_and_replicas_only) {
  for (const MatrixOptimizer optimizer : factored) {
    for (const StrategyKind kind : strategy_kinds()) {
      EXPECT_EQ(supports(kind, optimizer), !has_row_shards(kind)) << name_of(kind);
      EXPECT_TRUE(supports(kind, MatrixOptimizer::muon)) << name_of(kind);
      EXPECT_TRUE(supports(kind, MatrixOptimizer::adamw)) << name_of(kind);
    }
    const std::string message =
        test::message_of<InputError>([&] { require_supported(StrategyKind::fsdp2_gather, optimizer); });
    EXPECT_NE(message.find("fsdp2-gather"), std::string::npos) << message;
    EXPECT_NE(message.find(name_of(optimizer)), std::string::npos) << message;
    EXPECT_NE(message.find("matrix-fsdp, zero1-owner, ddp"), std::string::npos) << message;
  }
}

// What the whole model keeps does not depend on the plan, and owners send nothing for it.
TEST(StrategyLoads, of_factors_move_with_their_matrix) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:d2"));
  for (const MatrixOptimizer optimizer : factored) {
    PlannerOptions planner;
    planner.optimizer = cost_for(optimizer);
    StrategyCostOptions options;
    options.memory.optimizer = planner.optimizer;
    std::int64_t whole = 0;
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& spec : unit.parameters)
        whole += resident_bytes(spec, element_count(spec.shape), planner.optimizer);
    }
    for (const int ranks : {1, 3, 4}) {
      const Topology topology = make_topology(ranks, ranks);
      const Plan plan = make_strategy_plan(StrategyKind::matrix_fsdp, model, ranks, planner);
      std::int64_t held = 0;
      std::int64_t flops = 0;
      for (const StrategyLoad& load : strategy_loads(StrategyKind::matrix_fsdp, model, plan, topology, options)) {
        EXPECT_EQ(load.optimizer_bytes, 0);
        held += load.resident_bytes;
        flops += load.flops;
      }
      EXPECT_EQ(held, whole) << ranks;
      const Plan replicated = make_strategy_plan(StrategyKind::ddp, model, ranks, planner);
      for (const StrategyLoad& load : strategy_loads(StrategyKind::ddp, model, replicated, topology, options)) {
        EXPECT_EQ(load.optimizer_bytes, 0);
        EXPECT_EQ(load.resident_bytes, whole);
        EXPECT_EQ(load.flops, flops);
      }
      const Plan rows = make_strategy_plan(StrategyKind::fsdp2, model, ranks, planner);
      EXPECT_THROW(strategy_loads(StrategyKind::fsdp2, model, rows, topology, options), InputError);
    }
  }
}

// The square matrices cost less than the wide ones of as many elements would: the planner sees that.
TEST(Planner, balances_the_work_of_factors) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:d12"));
  for (const MatrixOptimizer optimizer : factored) {
    PlannerOptions planner;
    planner.optimizer = cost_for(optimizer);
    MemoryOptions memory;
    memory.optimizer = planner.optimizer;
    const PlanReport balanced = report(model, make_plan(model, 4, planner), memory);
    EXPECT_LE(balanced.imbalance_flops, 1.05);
    EXPECT_LE(balanced.imbalance_bytes, 1.05);
  }
}

}  // namespace
}  // namespace matrixfsdp
