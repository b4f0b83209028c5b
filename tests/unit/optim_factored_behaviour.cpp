#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/linalg/eigen.hpp>

#include "matrix_optimizer_fixture.hpp"

/// What holds for Shampoo and SOAP alike, and not for Muon.
namespace matrixfsdp {
namespace {

using test::fused;
using test::parameter;
using test::Parameters;
using test::values_of;

class Factored : public test::MatrixOptimizerTest {};

// CASES 17 does not concern these two: their epsilons are absolute, as the references'. Tiny and large gradients have
// finite updates all the same.
TEST_P(Factored, TinyAndLargeGradientsHaveFiniteUpdates) {
  for (const double factor : {1e-30, 1e-10, 1e10, 1e17}) {
    Parameters parameters;
    const ParameterView view = parameters.add(parameter("w", {9, 14}), ParameterKind::matrix);
    const auto optimizer = make(parameters);
    for (int step = 1; step <= 5; ++step) {
      parameters.draw_gradients(static_cast<std::uint64_t>(step), factor);
      EXPECT_TRUE(optimizer->step({1.0, 1.0, step}).failed.empty()) << factor;
    }
    for (const float value : values_of(view.weight))
      EXPECT_TRUE(std::isfinite(value)) << factor;
  }
}

// Over the steps from one refresh to the next the FLOPs are the planner's.
TEST_P(Factored, StepsCountWhatThePlanCounts) {
  RoutingOptions routing = options(6);
  routing.shampoo.preconditioner.block_size = 7;
  const OptimizerCost cost = cost_of(routing);
  Parameters parameters;
  std::int64_t step_sum = 0;
  std::int64_t refresh = 0;
  for (const ParameterSpec& spec :
       {parameter("a", {6, 20}), parameter("b", {3, 9, 5}), fused("c", {12, 12}, 1, {5, 7})}) {
    parameters.add(spec, ParameterKind::matrix);
    for (const MatrixPart& block : preconditioned_blocks(spec, GetParam(), cost.preconditioner)) {
      const PreconditionerFlops one = preconditioner_flops(block.rows, block.cols, GetParam(), cost.preconditioner);
      step_sum += one.step;
      refresh += one.refresh;
    }
  }
  const auto optimizer = make(parameters, routing);
  for (int step = 1; step <= 12; ++step)
    optimizer->step({1.0, 1.0, step});
  std::int64_t counted = 0;
  for (int step = 13; step <= 18; ++step)
    counted += optimizer->step({1.0, 1.0, step}).flops;
  EXPECT_EQ(counted, 6 * step_sum + refresh);
}

// CASES 35: the set of states, and their extents, do not depend on gradients.
TEST_P(Factored, StatesHaveTheirExtentsFromConstruction) {
  Parameters parameters;
  parameters.add(parameter("w", {4, 6}), ParameterKind::matrix);
  parameters.add(fused("parts", {6, 4}, 0, {2, 4}), ParameterKind::matrix);
  const auto optimizer = make(parameters);
  for (const StateView& state : optimizer->state()) {
    EXPECT_EQ(state.optimizer, name_of(GetParam()));
    const std::int64_t elements = optimizer->views()[state.view].elements.size();
    EXPECT_EQ(static_cast<std::int64_t>(state.values.extent(0)), state.shape ? element_count(*state.shape) : elements);
    if (state.name == "left_factor") {
      EXPECT_EQ(*state.shape, state.view == 0 ? (Shape{4, 4}) : (Shape{4 + 16}));
    }
    if (state.name == "right_factor") {
      EXPECT_EQ(*state.shape, state.view == 0 ? (Shape{6, 6}) : (Shape{16 + 16}));
    }
  }
}

// A matrix with an extent that is too large is AdamW's, whatever else it has.
TEST_P(Factored, LargeDimensionsAreRoutedToAdamW) {
  Parameters parameters;
  parameters.add(parameter("fits", {8, 16}), ParameterKind::matrix);
  parameters.add(parameter("wide", {4, 17}), ParameterKind::matrix);
  parameters.add(fused("rows", {20, 4}, 0, {16, 4}), ParameterKind::matrix);  // 16 and 4: its parts fit
  parameters.add(parameter("tail", {5}), ParameterKind::tail);
  RoutingOptions routing = options();
  routing.shampoo.preconditioner.largest_dimension = routing.soap.preconditioner.largest_dimension = 16;
  const auto optimizer = make(parameters, routing);
  for (const StateView& state : optimizer->state()) {
    const std::string& name = optimizer->views()[state.view].spec->name;
    const bool matrix = name == "fits" || name == "rows";
    EXPECT_EQ(state.optimizer, matrix ? name_of(GetParam()) : "adamw") << name;
  }
  EXPECT_EQ(optimizer->step({}).matrices_orthogonalized, 3);
}

INSTANTIATE_TEST_SUITE_P(optimizers, Factored, ::testing::Values(MatrixOptimizer::shampoo, MatrixOptimizer::soap),
                         test::name_of_case);

// The plan, which includes no linear algebra, counts LAPACK's scratch as the seam does.
TEST(FactoredScratch, IsWhatLapackAsksFor) {
  for (const std::int64_t k : {1, 2, 5, 70, 300}) {
    const ParameterSpec spec = parameter("w", {k, 1});
    const PreconditionerScratch shampoo = preconditioner_scratch(spec, MatrixOptimizer::shampoo, {});
    const PreconditionerScratch soap = preconditioner_scratch(spec, MatrixOptimizer::soap, {});
    linalg::DecompositionScratch expected = linalg::DecompositionScratch::for_eigenvectors(k);
    EXPECT_EQ(shampoo.reals, expected.reals) << k;
    EXPECT_EQ(shampoo.integers, expected.integers) << k;
    expected.include(linalg::DecompositionScratch::for_orthonormal_rows(k));
    EXPECT_EQ(soap.reals, expected.reals) << k;
    EXPECT_EQ(soap.integers, expected.integers) << k;
  }
}

}  // namespace
}  // namespace matrixfsdp
