#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/adamw.hpp>

#include "optim_fixture.hpp"
#include "support/count_allocations.hpp"
#include "support/reference_optim.hpp"

namespace matrixfsdp {
namespace {

using test::bits_of;
using test::doubles_of;
using test::parameter;
using test::Parameters;
using test::values_of;

double largest_relative(const TensorView<float>& view, const std::vector<double>& expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double scale = std::max(std::abs(expected[i]), 1e-3);
    largest = std::max(largest, std::abs(static_cast<double>(view.data()[i]) - expected[i]) / scale);
  }
  return largest;
}

void compare(const Shape& shape, const AdamWOptions& options, const ParameterGroup& group, double weight_decay) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", shape), ParameterKind::tail, group);
  AdamW adamw(parameters.views(), options);
  reference::AdamW expected(
      {options.learning_rate * group.learning_rate_scale, weight_decay, options.beta1, options.beta2, options.epsilon},
      doubles_of(view.weight));
  for (int step = 1; step <= 6; ++step) {
    parameters.draw_gradients(static_cast<std::uint64_t>(step), step == 4 ? 1e-3 : 1.0);
    const double gradient_scale = step == 2 ? 0.5 : 1.0;
    const double schedule = 1.0 / step;
    EXPECT_TRUE(adamw.step({gradient_scale, schedule, step}).failed.empty());
    expected.step(doubles_of(view.gradient), step, gradient_scale, schedule);
  }
  EXPECT_LT(largest_relative(view.weight, expected.weight()), 1e-5);
  EXPECT_LT(largest_relative(adamw.state().at(0).values, expected.first_moment()), 1e-5);
  EXPECT_LT(largest_relative(adamw.state().at(1).values, expected.second_moment()), 1e-5);
}

TEST(AdamW, EqualsTheReference) {
  AdamWOptions options;
  options.learning_rate = 0.01;
  options.weight_decay = 0.1;
  compare({5, 27}, options, {}, 0.1);
  compare({2, 3, 4}, options, {}, 0.1);
  options.beta1 = 0.0;
  options.beta2 = 0.5;
  options.epsilon = 0.1;
  compare({40}, options, {"group", 0.5, 0.2}, 0.2);
}

// CASES 28, and the rule for norms and biases.
TEST(AdamW, WeightDecayOfGroupsAndVectors) {
  AdamWOptions options;
  options.learning_rate = 0.5;
  options.weight_decay = 0.25;
  Parameters parameters;
  const ParameterView matrix = parameters.add(parameter("matrix", {3, 5}), ParameterKind::matrix);
  const ParameterView vector = parameters.add(parameter("vector", {15}), ParameterKind::tail);
  const ParameterView scalar = parameters.add(parameter("scalar", {}), ParameterKind::tail);
  const ParameterView decayed = parameters.add(parameter("decayed", {15}), ParameterKind::tail, {"some", 1.0, 0.1});
  const ParameterView spared = parameters.add(parameter("spared", {3, 5}), ParameterKind::tail, {"none", 1.0, 0.0});
  std::vector<std::vector<float>> before;
  for (const ParameterView& view : parameters.views()) {
    test::fill(view.gradient, 0.0F);
    before.push_back(values_of(view.weight));
  }
  AdamW(parameters.views(), options).step({});
  const auto expect_factor = [&](const ParameterView& view, float factor) {
    for (std::size_t i = 0; i < view.weight.extent(0); ++i) {
      EXPECT_EQ(view.weight.data()[i], before[view.index][i] * factor) << view.spec->name;
    }
  };
  expect_factor(matrix, 0.875F);
  expect_factor(vector, 1.0F);
  expect_factor(scalar, 1.0F);
  expect_factor(decayed, static_cast<float>(0.95));
  expect_factor(spared, 1.0F);
}

// A tail is cut over ranks anywhere: an element's bits must not depend on where it falls in a vector loop.
TEST(AdamW, CutsChangeNoBit) {
  const ParameterSpec spec = parameter("embedding", {17, 59});
  Parameters whole;
  const ParameterView view = whole.add(spec, ParameterKind::tail);
  AdamW one(whole.views(), {});
  for (int step = 1; step <= 3; ++step)
    one.step({0.7, 1.0, step});
  for (const std::vector<std::int64_t>& cuts : {std::vector<std::int64_t>{0, 1, 14, 1003}, {0, 501, 501, 502, 1003}}) {
    Parameters cut;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      cut.add_segment(spec, ParameterKind::tail, {cuts[i - 1], cuts[i]}).index = 0;
    }
    AdamW many(cut.views(), {});
    for (int step = 1; step <= 3; ++step)
      many.step({0.7, 1.0, step});
    std::string bits;
    for (const ParameterView& part : many.views())
      bits += bits_of(part.weight);
    EXPECT_EQ(bits, bits_of(view.weight));
  }
}

TEST(AdamW, FirstStepMovesByTheLearningRate) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("b", {4}), ParameterKind::tail);
  test::fill(view.weight, 1.0F);
  test::fill(view.gradient, -3.0F);
  AdamWOptions options;
  options.learning_rate = 0.25;
  AdamW(parameters.views(), options).step({});
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(view.weight.data()[i], 1.25F, 1e-6F);
}

TEST(AdamW, NonFiniteGradientLeavesTheSegmentUnchanged) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 2e19F}) {
    Parameters parameters;
    const ParameterView good = parameters.add(parameter("good", {33}), ParameterKind::tail);
    const ParameterView bad = parameters.add(parameter("bad", {33}), ParameterKind::tail);
    AdamW adamw(parameters.views(), {});
    adamw.step({});
    bad.gradient.data()[32] = value;
    const std::string weight = bits_of(bad.weight);
    const std::string first = bits_of(adamw.state().at(2).values);
    const std::string second = bits_of(adamw.state().at(3).values);
    const std::string good_weight = bits_of(good.weight);
    const StepResult result = adamw.step({1.0, 1.0, 2});
    EXPECT_EQ(result.failed, std::vector<std::string>{"bad"}) << value;
    EXPECT_EQ(result.flops, 12 * 33);
    EXPECT_EQ(bits_of(bad.weight), weight);
    EXPECT_EQ(bits_of(adamw.state().at(2).values), first);
    EXPECT_EQ(bits_of(adamw.state().at(3).values), second);
    EXPECT_NE(bits_of(good.weight), good_weight);
  }
}

// A tail that is cut between norm blocks fails where the whole one fails: the bits do not depend on W.
TEST(AdamW, WhatFailsDoesNotDependOnCuts) {
  const ParameterSpec spec = parameter("table", {3 * norm_block + 7});
  const std::int64_t size = 3 * norm_block + 7;
  Parameters parameters;
  const ParameterView whole = parameters.add(spec, ParameterKind::tail);
  ParameterView left = parameters.add_segment(spec, ParameterKind::tail, {0, norm_block});
  ParameterView right = parameters.add_segment(spec, ParameterKind::tail, {norm_block, size});
  left.index = right.index = 0;
  const std::int64_t bad = 2 * norm_block + 5;
  whole.gradient.data()[bad] = right.gradient.data()[bad - norm_block] = -1e30F;
  const std::string before = bits_of(slice(whole.weight, 2 * norm_block, norm_block));
  AdamW one({whole}, {});
  AdamW cut({left, right}, {});
  for (int step = 1; step <= 2; ++step) {
    const StepResult result = one.step({1.0, 1.0, step});
    EXPECT_EQ(result.failed, std::vector<std::string>{"table"});
    EXPECT_EQ(result.flops, 12 * (size - norm_block));
    const StepResult of_cut = cut.step({1.0, 1.0, step});
    EXPECT_EQ(of_cut.failed, result.failed);
    EXPECT_EQ(of_cut.flops, result.flops);
  }
  EXPECT_EQ(bits_of(slice(whole.weight, 2 * norm_block, norm_block)), before);
  EXPECT_EQ(bits_of(whole.weight), bits_of(left.weight) + bits_of(right.weight));
  for (const std::size_t moment : {0U, 1U}) {
    EXPECT_EQ(bits_of(one.state().at(moment).values),
              bits_of(cut.state().at(moment).values) + bits_of(cut.state().at(2 + moment).values));
  }
}

// CASES 22 and 24
TEST(AdamW, AllocatesNothingAndReadsGradientsOnly) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {30, 7}), ParameterKind::tail);
  const std::string gradient = bits_of(view.gradient);
  AdamW adamw(parameters.views(), {});
  EXPECT_EQ(adamw.workspace_bytes(), 0);
  EXPECT_EQ(adamw.state_bytes(), 2 * 4 * 210);
  adamw.step({0.1, 1.0, 1});  // Kokkos allocates its own scratch for the process's first reduction
  const test::CountAllocations allocations;
  for (int step = 2; step <= 200; ++step)
    adamw.step({0.1, 1.0, step});
  EXPECT_EQ(allocations.count(), 0);
  EXPECT_EQ(bits_of(view.gradient), gradient);
}

TEST(AdamW, OptionsOutOfRangeThrow) {
  constexpr auto make = &test::make_with<AdamW, AdamWOptions>;
  EXPECT_THROW(make([](AdamWOptions& o) { o.beta1 = 1.0; }), InputError);
  EXPECT_THROW(make([](AdamWOptions& o) { o.beta2 = -0.5; }), InputError);
  EXPECT_THROW(make([](AdamWOptions& o) { o.epsilon = 0.0; }), InputError);
  EXPECT_THROW(make([](AdamWOptions& o) { o.weight_decay = std::nan(""); }), InputError);
  EXPECT_THROW(make([](AdamWOptions& o) { o.learning_rate = -1e-9; }), InputError);
}

TEST(AdamW, BrokenPreconditionsThrow) {
  Parameters parameters;
  const ParameterSpec spec = parameter("w", {10});
  const ParameterView left = parameters.add_segment(spec, ParameterKind::tail, {0, 6});
  ParameterView right = parameters.add_segment(spec, ParameterKind::tail, {5, 10});
  right.index = left.index;
  EXPECT_THROW(AdamW({left, right}, {}), ContractError);
  ParameterView outside = right;
  outside.elements = {6, 11};
  EXPECT_THROW(AdamW({outside}, {}), ContractError);
  ParameterView nameless = left;
  nameless.spec = nullptr;
  EXPECT_THROW(AdamW({nameless}, {}), ContractError);
  ParameterSpec frozen = spec;
  frozen.frozen = true;
  ParameterView frozen_view = left;
  frozen_view.spec = &frozen;
  EXPECT_THROW(AdamW({frozen_view}, {}), ContractError);
  AdamW adamw({left}, {});
  EXPECT_THROW(adamw.step({1.0, 1.0, 0}), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
