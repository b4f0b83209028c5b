#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/eigen.hpp>
#include <matrixfsdp/optim/routing.hpp>

#include "factored_fixture.hpp"
#include "optim_fixture.hpp"
#include "support/count_allocations.hpp"

/// What holds for Shampoo and SOAP alike.
namespace matrixfsdp {
namespace {

using test::bits_of;
using test::fused;
using test::parameter;
using test::Parameters;
using test::values_of;

class Factored : public ::testing::TestWithParam<MatrixOptimizer> {
 protected:
  static RoutingOptions options(std::int64_t frequency = 2) {
    RoutingOptions options;
    options.matrices = GetParam();
    options.shampoo.preconditioner.frequency = options.soap.preconditioner.frequency = frequency;
    return options;
  }
  /// Of matrices only: there are no other views.
  static std::unique_ptr<Optimizer> make(const Parameters& parameters, const RoutingOptions& routing) {
    return make_optimizer(parameters.views(), routing);
  }
  static std::unique_ptr<Optimizer> make(const Parameters& parameters) { return make(parameters, options()); }

  static std::string all_state(Optimizer& optimizer) {
    std::string bits;
    for (const StateView& state : optimizer.state())
      bits += bits_of(state.values);
    return bits;
  }
};

// CASES 14: a fused matrix of row blocks gives the bits of separate parameters.
TEST_P(Factored, RowBlocksEqualSeparateParameters) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{4, 4, 4}, {8, 2, 2}}) {
    Parameters together;
    const ParameterView view = together.add(fused("qkv", {12, 4}, 0, sizes), ParameterKind::matrix);
    Parameters apart;
    std::int64_t row = 0;
    for (const std::int64_t size : sizes) {
      const ParameterView part = apart.add(parameter(fmt::format("p{}", row), {size, 4}), ParameterKind::matrix);
      Kokkos::deep_copy(part.weight, slice(view.weight, row * 4, size * 4));
      Kokkos::deep_copy(part.gradient, slice(view.gradient, row * 4, size * 4));
      row += size;
    }
    const auto one = make(together);
    const auto three = make(apart);
    for (int step = 1; step <= 5; ++step) {
      EXPECT_EQ(one->step({1.0, 1.0, step}).matrices_orthogonalized, 3);
      EXPECT_EQ(three->step({1.0, 1.0, step}).matrices_orthogonalized, 3);
    }
    std::string weights;
    for (const ParameterView& part : apart.views())
      weights += bits_of(part.weight);
    EXPECT_EQ(bits_of(view.weight), weights);
  }
}

// CASES 21: a head that is 100 times as large changes nothing of the other one.
TEST_P(Factored, MatricesOfABatchDoNotSeeEachOther) {
  Parameters small;
  const ParameterView plain = small.add(parameter("heads", {2, 6, 8}), ParameterKind::matrix);
  Parameters large;
  const ParameterView scaled = large.add(parameter("heads", {2, 6, 8}), ParameterKind::matrix);
  for (int i = 48; i < 96; ++i)
    scaled.gradient.data()[i] *= 100.0F;
  const auto one = make(small);
  const auto other = make(large);
  for (int step = 1; step <= 4; ++step) {
    one->step({1.0, 1.0, step});
    other->step({1.0, 1.0, step});
  }
  EXPECT_EQ(bits_of(slice(plain.weight, 0, 48)), bits_of(slice(scaled.weight, 0, 48)));
}

// CASES 18: zero gradients give no update, no NaN, and weight decay.
TEST_P(Factored, ZeroGradientGivesZeroUpdateAndWeightDecay) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {7, 5}), ParameterKind::matrix);
  test::fill(view.gradient, 0.0F);
  const std::vector<float> before = values_of(view.weight);
  RoutingOptions routing = options();
  routing.shampoo.learning_rate = routing.soap.learning_rate = 0.25;
  routing.shampoo.weight_decay = routing.soap.weight_decay = 0.5;
  const auto optimizer = make(parameters, routing);
  for (int step = 1; step <= 4; ++step)
    EXPECT_TRUE(optimizer->step({1.0, 1.0, step}).failed.empty()) << step;
  const int updates = GetParam() == MatrixOptimizer::soap ? 3 : 4;  // SOAP's first call decays nothing
  for (std::size_t i = 0; i < before.size(); ++i) {
    float expected = before[i];
    for (int k = 0; k < updates; ++k)
      expected *= 0.875F;
    EXPECT_EQ(view.weight.data()[i], expected);
  }
  // Then a gradient comes after all.
  parameters.draw_gradients(7);
  for (int step = 5; step <= 8; ++step)
    EXPECT_TRUE(optimizer->step({1.0, 1.0, step}).failed.empty()) << step;
  for (const float value : values_of(view.weight))
    EXPECT_TRUE(std::isfinite(value));
}

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

// CASES 19 and 24: a step reads gradients, and leaves them.
TEST_P(Factored, GradientsAreUnchanged) {
  Parameters parameters;
  parameters.add(parameter("a", {6, 20}), ParameterKind::matrix);
  parameters.add(fused("b", {20, 6}, 1, {2, 4}), ParameterKind::matrix);
  std::vector<std::string> before;
  for (const ParameterView& view : parameters.views())
    before.push_back(bits_of(view.gradient));
  const auto optimizer = make(parameters);
  for (int step = 1; step <= 4; ++step)
    optimizer->step({0.3, 1.0, step});
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(bits_of(parameters.views()[i].gradient), before[i]);
}

// CASES 22
TEST_P(Factored, WorkspaceIsFlatOverTwoHundredSteps) {
  Parameters parameters;
  parameters.add(parameter("a", {6, 20}), ParameterKind::matrix);
  parameters.add(parameter("b", {12, 12}), ParameterKind::matrix);
  parameters.add(parameter("c", {2, 18, 5}), ParameterKind::matrix);
  const RoutingOptions routing = options(10);
  const auto optimizer = make(parameters, routing);
  MatrixScratch scratch;
  std::int64_t state = 0;
  for (const ParameterView& view : parameters.views()) {
    scratch.include(*view.spec, cost_of(routing));
    state += state_bytes(*view.spec, view.elements.size(), cost_of(routing));
  }
  EXPECT_EQ(optimizer->workspace_bytes(), scratch.bytes()) << "the plan's formula";
  EXPECT_EQ(optimizer->state_bytes(), state) << "the plan's formula";
  const auto other = make(parameters, routing);
  for (int step = 1; step <= 10; ++step)
    other->step({1.0, 1.0, step});  // Kokkos makes the scratch of its reductions once in a process
  const test::CountAllocations allocations;
  for (int step = 1; step <= 200; ++step) {
    optimizer->step({1.0, 1.0, step});
    ASSERT_EQ(optimizer->workspace_bytes(), scratch.bytes()) << step;
  }
  EXPECT_EQ(allocations.count(), 0);
}

TEST_P(Factored, NonFiniteGradientLeavesTheWholeParameterUnchanged) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e30F}) {
    Parameters parameters;
    parameters.add(parameter("good", {6, 8}), ParameterKind::matrix);
    const ParameterView bad = parameters.add(fused("bad", {12, 8}, 0, {4, 4, 4}), ParameterKind::matrix);
    const ParameterView last = parameters.add(parameter("last", {3, 3}), ParameterKind::matrix);
    const auto optimizer = make(parameters);
    for (int step = 1; step <= 3; ++step)
      optimizer->step({1.0, 1.0, step});
    const std::string weight = bits_of(bad.weight);
    std::vector<std::string> state;
    for (const StateView& one : optimizer->state())
      state.push_back(bits_of(one.values));
    const std::string last_weight = bits_of(last.weight);
    bad.gradient.data()[95] = value;  // in the last block
    const StepResult result = optimizer->step({1.0, 1.0, 4});
    EXPECT_EQ(result.failed, std::vector<std::string>{"bad"});
    EXPECT_EQ(result.matrices_orthogonalized, 2);
    EXPECT_EQ(bits_of(bad.weight), weight);
    const std::vector<StateView> after = optimizer->state();
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i].view != 1) continue;
      EXPECT_EQ(bits_of(after[i].values), state[i]) << after[i].name;
    }
    EXPECT_NE(bits_of(last.weight), last_weight);
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

// CASES 49 and 50: state is all there is.
TEST_P(Factored, StateRestoresARun) {
  for (const int before : {1, 2, 5}) {
    Parameters first;
    first.add(fused("w", {10, 12}, 0, {4, 6}), ParameterKind::matrix);
    Parameters second;
    second.add(fused("w", {10, 12}, 0, {4, 6}), ParameterKind::matrix);
    const auto original = make(first);
    for (int step = 1; step <= before; ++step)
      original->step({1.0, 1.0, step});
    const auto restored = make(second);
    Kokkos::deep_copy(second.views()[0].weight, first.views()[0].weight);
    const std::vector<StateView> from = original->state();
    const std::vector<StateView> to = restored->state();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      Kokkos::deep_copy(to[i].values, from[i].values);
    }
    for (int step = before + 1; step <= before + 4; ++step) {
      original->step({1.0, 1.0, step});
      restored->step({1.0, 1.0, step});
    }
    EXPECT_EQ(bits_of(first.views()[0].weight), bits_of(second.views()[0].weight)) << before;
    EXPECT_EQ(all_state(*original), all_state(*restored)) << before;
  }
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

// CASES 36 and 7: no matrix, and one without elements.
TEST_P(Factored, NoMatricesAreLegal) {
  const auto none = make_optimizer({}, options());
  EXPECT_EQ(none->step({}).matrices_orthogonalized, 0);
  EXPECT_EQ(none->state_bytes() + none->workspace_bytes(), 0);
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

TEST_P(Factored, BrokenPreconditionsThrow) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {4, 6}), ParameterKind::matrix);
  const auto make_directly = [](const ParameterView& changed) {
    if (GetParam() == MatrixOptimizer::shampoo) {
      Shampoo({changed}, {});
    } else {
      Soap({changed}, {});
    }
  };
  ParameterView tail = view;
  tail.kind = ParameterKind::tail;
  EXPECT_THROW(make_directly(tail), ContractError);
  ParameterView part = view;
  part.elements = {0, 12};
  part.weight = slice(view.weight, 0, 12);
  part.gradient = slice(view.gradient, 0, 12);
  EXPECT_THROW(make_directly(part), ContractError);
  const auto optimizer = make(parameters);
  EXPECT_THROW(optimizer->step({1.0, 1.0, 0}), ContractError);
  EXPECT_THROW(optimizer->step({std::numeric_limits<double>::quiet_NaN(), 1.0, 1}), ContractError);
}

INSTANTIATE_TEST_SUITE_P(optimizers, Factored, ::testing::Values(MatrixOptimizer::shampoo, MatrixOptimizer::soap),
                         [](const auto& given) { return std::string(name_of(given.param)); });

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
