#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "matrix_optimizer_fixture.hpp"
#include "support/count_allocations.hpp"

/// What holds for Muon, Shampoo and SOAP alike.
namespace matrixfsdp {
namespace {

using test::bits_of;
using test::fused;
using test::parameter;
using test::Parameters;
using test::values_of;

class MatrixOptimizers : public test::MatrixOptimizerTest {
 protected:
  static std::string all_state(Optimizer& optimizer) {
    std::string bits;
    for (const StateView& state : optimizer.state())
      bits += bits_of(state.values);
    return bits;
  }
  /// By its class, whose constructor checks the views.
  static void make_directly(const std::vector<ParameterView>& views) {
    switch (GetParam()) {
      case MatrixOptimizer::muon:
        Muon(views, {});
        break;
      case MatrixOptimizer::shampoo:
        Shampoo(views, {});
        break;
      default:
        Soap(views, {});
    }
  }
};

// CASES 14: a fused matrix of row blocks gives the bits of separate parameters.
TEST_P(MatrixOptimizers, RowBlocksEqualSeparateParameters) {
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
TEST_P(MatrixOptimizers, MatricesOfABatchDoNotSeeEachOther) {
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
TEST_P(MatrixOptimizers, ZeroGradientGivesZeroUpdateAndWeightDecay) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {7, 5}), ParameterKind::matrix);
  test::fill(view.gradient, 0.0F);
  const std::vector<float> before = values_of(view.weight);
  RoutingOptions routing = options();
  routing.muon.learning_rate = routing.shampoo.learning_rate = routing.soap.learning_rate = 0.25;
  routing.muon.weight_decay = routing.shampoo.weight_decay = routing.soap.weight_decay = 0.5;
  const auto optimizer = make(parameters, routing);
  for (int step = 1; step <= 4; ++step) {
    const StepResult result = optimizer->step({1.0, 1.0, step});
    EXPECT_EQ(result.matrices_orthogonalized, 1) << step;
    EXPECT_TRUE(result.failed.empty()) << step;
  }
  const int updates = GetParam() == MatrixOptimizer::soap ? 3 : 4;  // SOAP's first call decays nothing
  for (std::size_t i = 0; i < before.size(); ++i) {
    float expected = before[i];
    for (int k = 0; k < updates; ++k)
      expected *= 0.875F;
    EXPECT_EQ(view.weight.data()[i], expected);
  }
  for (const StateView& state : optimizer->state()) {
    if (state.name != "momentum" && state.name != "first_moment") continue;
    EXPECT_EQ(values_of(state.values), std::vector<float>(35, 0.0F)) << state.name;
  }
  // Then a gradient comes after all.
  parameters.draw_gradients(7);
  for (int step = 5; step <= 8; ++step)
    EXPECT_TRUE(optimizer->step({1.0, 1.0, step}).failed.empty()) << step;
  for (const float value : values_of(view.weight))
    EXPECT_TRUE(std::isfinite(value));
}

// CASES 19 and 24: a step reads gradients, and leaves them.
TEST_P(MatrixOptimizers, GradientsAreUnchanged) {
  for (const bool nesterov : {true, false}) {  // Muon's
    Parameters parameters;
    parameters.add(parameter("a", {6, 20}), ParameterKind::matrix);
    parameters.add(fused("b", {20, 6}, 1, {2, 4}), ParameterKind::matrix);
    std::vector<std::string> before;
    for (const ParameterView& view : parameters.views())
      before.push_back(bits_of(view.gradient));
    RoutingOptions routing = options();
    routing.muon.nesterov = nesterov;
    const auto optimizer = make(parameters, routing);
    for (int step = 1; step <= 4; ++step)
      optimizer->step({0.3, 1.0, step});
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_EQ(bits_of(parameters.views()[i].gradient), before[i]) << nesterov;
  }
}

// CASES 22
TEST_P(MatrixOptimizers, WorkspaceIsFlatOverTwoHundredSteps) {
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

TEST_P(MatrixOptimizers, NonFiniteGradientLeavesTheWholeParameterUnchanged) {
  std::vector<float> values{std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  if (GetParam() != MatrixOptimizer::muon) values.push_back(3e30F);  // its square leaves float32
  for (const float value : values) {
    Parameters parameters;
    const ParameterView good = parameters.add(parameter("good", {6, 8}), ParameterKind::matrix);
    const ParameterView bad = parameters.add(fused("bad", {12, 8}, 0, {4, 4, 4}), ParameterKind::matrix);
    const ParameterView last = parameters.add(parameter("last", {3, 3}), ParameterKind::matrix);
    const auto optimizer = make(parameters);
    for (int step = 1; step <= 3; ++step)
      optimizer->step({1.0, 1.0, step});
    const std::string weight = bits_of(bad.weight);
    std::vector<std::string> state;
    for (const StateView& one : optimizer->state())
      state.push_back(bits_of(one.values));
    const std::string good_weight = bits_of(good.weight);
    const std::string last_weight = bits_of(last.weight);
    bad.gradient.data()[95] = value;  // in the last block, which comes after the two others
    const StepResult result = optimizer->step({1.0, 1.0, 4});
    EXPECT_EQ(result.failed, std::vector<std::string>{"bad"});
    EXPECT_EQ(result.matrices_orthogonalized, 2);
    EXPECT_EQ(bits_of(bad.weight), weight);
    const std::vector<StateView> after = optimizer->state();
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i].view != 1) continue;
      EXPECT_EQ(bits_of(after[i].values), state[i]) << after[i].name;
    }
    EXPECT_NE(bits_of(good.weight), good_weight);
    EXPECT_NE(bits_of(last.weight), last_weight);
  }
}

// CASES 49 and 50: state is all there is.
TEST_P(MatrixOptimizers, StateRestoresARun) {
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

// CASES 36 and 7: no matrix.
TEST_P(MatrixOptimizers, NoMatricesAreLegal) {
  const auto none = make_optimizer({}, options());
  EXPECT_EQ(none->step({}).matrices_orthogonalized, 0);
  EXPECT_EQ(none->state_bytes() + none->workspace_bytes(), 0);
}

TEST_P(MatrixOptimizers, BrokenPreconditionsThrow) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {4, 6}), ParameterKind::matrix);
  ParameterView tail = view;
  tail.kind = ParameterKind::tail;
  EXPECT_THROW(make_directly({tail}), ContractError);
  ParameterView part = view;
  part.elements = {0, 12};
  part.weight = slice(view.weight, 0, 12);
  part.gradient = slice(view.gradient, 0, 12);
  EXPECT_THROW(make_directly({part}), ContractError);
  ParameterView short_gradient = view;
  short_gradient.gradient = slice(view.gradient, 0, 12);
  EXPECT_THROW(make_directly({short_gradient}), ContractError);
  EXPECT_THROW(make_directly({view, view}), ContractError);
  ParameterSpec frozen = *view.spec;
  frozen.frozen = true;
  ParameterView frozen_view = view;
  frozen_view.spec = &frozen;
  try {
    make_directly({frozen_view});
    FAIL() << "accepted";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("w is frozen"), std::string::npos) << error.what();
  }
  const auto optimizer = make(parameters);
  EXPECT_THROW(optimizer->step({1.0, 1.0, 0}), ContractError);
  EXPECT_THROW(optimizer->step({std::numeric_limits<double>::quiet_NaN(), 1.0, 1}), ContractError);
}

INSTANTIATE_TEST_SUITE_P(optimizers, MatrixOptimizers,
                         ::testing::Values(MatrixOptimizer::muon, MatrixOptimizer::shampoo, MatrixOptimizer::soap),
                         test::name_of_case);

}  // namespace
}  // namespace matrixfsdp
