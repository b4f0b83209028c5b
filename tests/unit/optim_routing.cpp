#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/routing.hpp>

#include "optim_fixture.hpp"

namespace matrixfsdp {
namespace {

using test::bits_of;
using test::parameter;
using test::Parameters;

Parameters model() {
  Parameters parameters;
  parameters.add(parameter("embedding", {20, 6}), ParameterKind::tail);
  parameters.add(parameter("query", {6, 6}), ParameterKind::matrix);
  parameters.add(parameter("bias", {6}), ParameterKind::tail);
  parameters.add(parameter("up", {24, 6}), ParameterKind::matrix);
  return parameters;
}

std::vector<std::string> keys(Optimizer& optimizer) {
  std::vector<std::string> keys;
  for (const StateView& state : optimizer.state()) {
    const ParameterView& view = optimizer.views().at(state.view);
    EXPECT_EQ(state.values.extent(0), static_cast<std::size_t>(view.elements.size()));
    keys.push_back(view.spec->name + "/" + state.name);
  }
  return keys;
}

// Step in backward: units one by one, in any order, are one step.
TEST(Routing, UnitsOneByOneAreOneStep) {
  const auto two_units = [](const Parameters& parameters) {
    std::vector<ParameterView> views = parameters.views();
    for (std::size_t i = 0; i < views.size(); ++i)
      views[i].unit = i % 2;
    return views;
  };
  const Parameters together = model();
  const Parameters apart = model();
  const auto one = make_optimizer(two_units(together), {});
  const auto units = make_optimizer(two_units(apart), {});
  for (std::int64_t step = 1; step <= 3; ++step) {
    const StepInput input{1.0, 0.5, step};
    const StepResult expected = one->step(input);
    StepResult result = units->step({1.0, 0.5, step, nullptr, 1});
    EXPECT_LT(result.flops, expected.flops);
    append(units->step({1.0, 0.5, step, nullptr, 0}), result);
    EXPECT_EQ(result.flops, expected.flops);
    EXPECT_EQ(result.matrices_orthogonalized, expected.matrices_orthogonalized);
    EXPECT_EQ(result.seconds.size(), expected.seconds.size());
    EXPECT_EQ(units->step({1.0, 0.5, step, nullptr, 7}).flops, 0) << "it has no views";
    for (std::size_t i = 0; i < one->views().size(); ++i)
      EXPECT_EQ(bits_of(units->views()[i].weight), bits_of(one->views()[i].weight)) << one->views()[i].spec->name;
  }
}

// CASES 35: the keys exist from construction and stay.
TEST(Routing, StateIsThatOfBothInCanonicalOrder) {
  const Parameters parameters = model();
  std::vector<ParameterView> views = parameters.views();
  std::swap(views[0], views[3]);  // registration order does not matter (CASES 39)
  const auto optimizer = make_optimizer(views, {});
  const std::vector<std::string> expected{"embedding/first_moment", "embedding/second_moment", "query/momentum",
                                          "bias/first_moment",      "bias/second_moment",      "up/momentum"};
  EXPECT_EQ(keys(*optimizer), expected);
  for (const StateView& state : optimizer->state()) {
    for (std::size_t i = 0; i < state.values.extent(0); ++i)
      EXPECT_EQ(state.values.data()[i], 0.0F);
  }
  std::vector<const float*> addresses;
  for (const StateView& state : optimizer->state())
    addresses.push_back(state.values.data());
  optimizer->step({});
  EXPECT_EQ(keys(*optimizer), expected);
  for (std::size_t i = 0; i < addresses.size(); ++i)
    EXPECT_EQ(optimizer->state()[i].values.data(), addresses[i]);
  EXPECT_EQ(optimizer->state_bytes(), 4 * (2 * 120 + 36 + 2 * 6 + 144));
}

TEST(Routing, EachClassIsSteppedByItsOptimizer) {
  const Parameters routed = model();
  const Parameters expected = model();
  RoutingOptions options;
  options.adamw.weight_decay = 0.1;
  options.muon.weight_decay = 0.2;
  const auto optimizer = make_optimizer(routed.views(), options);
  const std::vector<ParameterView> all = expected.views();
  Muon muon({all[1], all[3]}, options.muon);
  AdamW adamw({all[0], all[2]}, options.adamw);
  for (int step = 1; step <= 3; ++step) {
    const StepInput input{0.5, 0.9, step};
    const StepResult result = optimizer->step(input);
    EXPECT_EQ(result.matrices_orthogonalized, 2);
    EXPECT_EQ(result.flops, muon.step(input).flops + adamw.step(input).flops);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(bits_of(routed.views()[i].weight), bits_of(all[i].weight)) << all[i].spec->name;
  }
}

// CASES 29: the schedule scales each optimizer from its own base, and the base stays what it is.
TEST(Routing, BothLearningRatesAreScheduledFromTheirOwnBase) {
  const Parameters scheduled = model();
  const Parameters halved = model();
  RoutingOptions options;
  options.muon.learning_rate = 0.5;
  options.adamw.learning_rate = 0.0625;
  const auto optimizer = make_optimizer(scheduled.views(), options);
  options.muon.learning_rate /= 2;
  options.adamw.learning_rate /= 2;
  const auto expected = make_optimizer(halved.views(), options);
  for (int step = 1; step <= 2; ++step) {
    optimizer->step({1.0, 0.5, step});
    expected->step({1.0, 1.0, step});
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(bits_of(scheduled.views()[i].weight), bits_of(halved.views()[i].weight));
  }
}

TEST(Routing, ScheduleOfZeroMovesNothingButState) {
  const Parameters parameters = model();
  std::vector<std::string> before;
  for (const ParameterView& view : parameters.views())
    before.push_back(bits_of(view.weight));
  const auto optimizer = make_optimizer(parameters.views(), {});
  optimizer->step({1.0, 0.0, 1});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(bits_of(parameters.views()[i].weight), before[i]);
  EXPECT_NE(optimizer->state()[2].values.data()[0], 0.0F);
}

// CASES 5 and 36: an empty class, and a rank that owns nothing at all.
TEST(Routing, EmptyClassesAreLegal) {
  const std::vector<ParameterView> none;
  const auto empty = make_optimizer(none, {});
  const StepResult result = empty->step({});
  EXPECT_EQ(result.matrices_orthogonalized, 0);
  EXPECT_EQ(result.flops, 0);
  EXPECT_TRUE(result.failed.empty());
  EXPECT_TRUE(empty->views().empty());
  EXPECT_TRUE(empty->state().empty());
  EXPECT_EQ(empty->state_bytes(), 0);
  EXPECT_EQ(empty->workspace_bytes(), 0);

  const Parameters parameters = model();
  const std::vector<ParameterView> all = parameters.views();
  const auto matrices = make_optimizer({all[1], all[3]}, {});
  EXPECT_EQ(matrices->step({}).matrices_orthogonalized, 2);
  EXPECT_EQ(keys(*matrices), (std::vector<std::string>{"query/momentum", "up/momentum"}));
  const auto tails = make_optimizer({all[0], all[2]}, {});
  EXPECT_EQ(tails->step({}).matrices_orthogonalized, 0);
  EXPECT_EQ(tails->state().size(), 4U);
  EXPECT_EQ(tails->workspace_bytes(), 0);
}

// CASES 7: no elements, kept in the state.
TEST(Routing, ParameterWithoutElementsKeepsItsKeys) {
  Parameters parameters;
  parameters.add(parameter("nothing", {0, 8}), ParameterKind::tail);
  parameters.add(parameter("w", {4, 8}), ParameterKind::matrix);
  const auto optimizer = make_optimizer(parameters.views(), {});
  EXPECT_TRUE(optimizer->step({}).failed.empty());
  EXPECT_EQ(keys(*optimizer),
            (std::vector<std::string>{"nothing/first_moment", "nothing/second_moment", "w/momentum"}));
}

TEST(Routing, MatricesMayGoToAdamW) {
  const Parameters parameters = model();
  RoutingOptions options;
  options.matrices = MatrixOptimizer::adamw;
  const auto optimizer = make_optimizer(parameters.views(), options);
  EXPECT_EQ(optimizer->step({}).matrices_orthogonalized, 0);
  EXPECT_EQ(optimizer->state().size(), 8U);
  EXPECT_EQ(optimizer->workspace_bytes(), 0);
}

TEST(Routing, FailuresOfBothAreNamed) {
  const Parameters parameters = model();
  const auto optimizer = make_optimizer(parameters.views(), {});
  parameters.views()[2].gradient.data()[0] = std::numeric_limits<float>::infinity();
  parameters.views()[3].gradient.data()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(optimizer->step({}).failed, (std::vector<std::string>{"up", "bias"}));
}

}  // namespace
}  // namespace matrixfsdp
