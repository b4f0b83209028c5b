#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/muon.hpp>

#include "optim_fixture.hpp"
#include "support/count_allocations.hpp"

namespace matrixfsdp {
namespace {

using test::bits_of;
using test::fused;
using test::parameter;
using test::Parameters;
using test::values_of;

void copy_elements(const TensorView<float>& from, std::int64_t begin, const TensorView<float>& to) {
  Kokkos::deep_copy(to, slice(from, begin, static_cast<std::int64_t>(to.extent(0))));
}

// CASES 14: a fused matrix of row blocks gives the bits of separate parameters.
TEST(MuonBehaviour, RowBlocksEqualSeparateParameters) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{4, 4, 4}, {8, 2, 2}}) {
    Parameters together;
    const ParameterView view = together.add(fused("qkv", {12, 4}, 0, sizes), ParameterKind::matrix);
    Parameters apart;
    std::int64_t row = 0;
    for (const std::int64_t size : sizes) {
      const ParameterView part = apart.add(parameter(fmt::format("p{}", row), {size, 4}), ParameterKind::matrix);
      copy_elements(view.weight, row * 4, part.weight);
      copy_elements(view.gradient, row * 4, part.gradient);
      row += size;
    }
    Muon one(together.views(), {});
    Muon three(apart.views(), {});
    for (int step = 1; step <= 3; ++step) {
      EXPECT_EQ(one.step({1.0, 1.0, step}).matrices_orthogonalized, 3);
      EXPECT_EQ(three.step({1.0, 1.0, step}).matrices_orthogonalized, 3);
    }
    std::string weights;
    for (const ParameterView& part : apart.views())
      weights += bits_of(part.weight);
    EXPECT_EQ(bits_of(view.weight), weights);
  }
}

// CASES 21: the norm is per matrix. A head that is 100 times as large does not shrink the update of the other.
TEST(MuonBehaviour, BatchIsNormalisedPerMatrix) {
  Parameters small;
  const ParameterView plain = small.add(parameter("heads", {2, 6, 8}), ParameterKind::matrix);
  Parameters large;
  const ParameterView scaled = large.add(parameter("heads", {2, 6, 8}), ParameterKind::matrix);
  for (int i = 48; i < 96; ++i)
    scaled.gradient.data()[i] *= 100.0F;
  Muon(small.views(), {}).step({});
  Muon(large.views(), {}).step({});
  EXPECT_EQ(bits_of(slice(plain.weight, 0, 48)), bits_of(slice(scaled.weight, 0, 48)));
  for (int i = 48; i < 96; ++i)
    EXPECT_NEAR(plain.weight.data()[i], scaled.weight.data()[i], 1e-5);
}

// CASES 17
TEST(MuonBehaviour, UpdateDoesNotDependOnTheScaleOfTheGradient) {
  const auto weights_after = [](double factor, double gradient_scale) {
    Parameters parameters;
    const ParameterView view = parameters.add(parameter("w", {20, 31}), ParameterKind::matrix);
    Muon muon(parameters.views(), {});
    for (int step = 1; step <= 3; ++step) {
      parameters.draw_gradients(static_cast<std::uint64_t>(step), factor);
      muon.step({gradient_scale, 1.0, step});
    }
    return std::pair(bits_of(view.weight), values_of(view.weight));
  };
  const auto [bits, values] = weights_after(1.0, 1.0);
  EXPECT_EQ(weights_after(0x1p-30, 1.0).first, bits);
  EXPECT_EQ(weights_after(0x1p30, 1.0).first, bits);
  EXPECT_EQ(weights_after(1.0, 0x1p-30).first, bits);
  const auto [other_bits, tiny] = weights_after(1e-10, 1.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(tiny[i], values[i], 2e-6);
}

// CASES 18
TEST(MuonBehaviour, ZeroGradientGivesZeroUpdateAndWeightDecay) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {7, 5}), ParameterKind::matrix);
  test::fill(view.gradient, 0.0F);
  const std::vector<float> before = values_of(view.weight);
  MuonOptions options;
  options.learning_rate = 0.25;
  options.weight_decay = 0.5;
  Muon muon(parameters.views(), options);
  const StepResult result = muon.step({});
  EXPECT_EQ(result.matrices_orthogonalized, 1);
  EXPECT_TRUE(result.failed.empty());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(view.weight.data()[i], before[i] * 0.875F);
  EXPECT_EQ(values_of(muon.state().at(0).values), std::vector<float>(35, 0.0F));
}

// CASES 19: without Nesterov the direction is the momentum; its normalisation must not reach the state.
TEST(MuonBehaviour, MomentumIsTheAverageOfGradients) {
  for (const bool nesterov : {false, true}) {
    Parameters parameters;
    const ParameterView view = parameters.add(parameter("w", {9, 14}), ParameterKind::matrix);
    MuonOptions options;
    options.nesterov = nesterov;
    options.momentum = 0.75;
    Muon muon(parameters.views(), options);
    std::vector<float> expected(126, 0.0F);
    for (int step = 1; step <= 2; ++step) {
      parameters.draw_gradients(static_cast<std::uint64_t>(20 + step));
      muon.step({0.5, 1.0, step});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float scaled = 0.5F * view.gradient.data()[i];
        const float decayed = 0.75F * expected[i];
        const float added = 0.25F * scaled;
        expected[i] = decayed + added;
      }
    }
    EXPECT_EQ(values_of(muon.state().at(0).values), expected) << nesterov;
  }
}

// CASES 24
TEST(MuonBehaviour, GradientsAreUnchanged) {
  Parameters parameters;
  parameters.add(parameter("a", {6, 20}), ParameterKind::matrix);
  parameters.add(fused("b", {20, 6}, 1, {2, 4}), ParameterKind::matrix);
  std::vector<std::string> before;
  for (const ParameterView& view : parameters.views())
    before.push_back(bits_of(view.gradient));
  for (const bool nesterov : {true, false}) {
    MuonOptions options;
    options.nesterov = nesterov;
    Muon(parameters.views(), options).step({0.3, 1.0, 1});
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_EQ(bits_of(parameters.views()[i].gradient), before[i]);
  }
}

// CASES 22
TEST(MuonBehaviour, WorkspaceIsFlatOverTwoHundredSteps) {
  Parameters parameters;
  parameters.add(parameter("a", {6, 20}), ParameterKind::matrix);
  parameters.add(parameter("b", {12, 12}), ParameterKind::matrix);
  parameters.add(parameter("c", {2, 18, 5}), ParameterKind::matrix);
  Muon muon(parameters.views(), {});
  const std::int64_t direction = 4 * 180;     // the largest parameter
  const std::int64_t iterate = 4 * 144;       // the largest matrix
  const std::int64_t products = 4 * 2 * 144;  // standard on 12x12; Gram on 6x20 needs 4 * 36
  EXPECT_EQ(muon.workspace_bytes(), direction + iterate + products + 8);
  EXPECT_EQ(muon.state_bytes(), 4 * (120 + 144 + 180));
  const test::CountAllocations allocations;
  for (int step = 1; step <= 200; ++step) {
    muon.step({1.0, 1.0, step});
    ASSERT_EQ(muon.workspace_bytes(), direction + iterate + products + 8) << step;
  }
  EXPECT_EQ(allocations.count(), 0);
}

TEST(MuonBehaviour, NonFiniteDirectionLeavesTheWholeParameterUnchanged) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Parameters parameters;
    const ParameterView good = parameters.add(parameter("good", {6, 8}), ParameterKind::matrix);
    const ParameterView bad = parameters.add(fused("bad", {12, 8}, 0, {4, 4, 4}), ParameterKind::matrix);
    const ParameterView last = parameters.add(parameter("last", {3, 3}), ParameterKind::matrix);
    Muon muon(parameters.views(), {});
    muon.step({1.0, 1.0, 1});
    const std::string weight = bits_of(bad.weight);
    const std::string momentum = bits_of(muon.state().at(1).values);
    const std::string good_weight = bits_of(good.weight);
    const std::string last_weight = bits_of(last.weight);
    bad.gradient.data()[95] = value;  // in the last block: the first two have already been orthogonalized
    const StepResult result = muon.step({1.0, 1.0, 2});
    EXPECT_EQ(result.failed, std::vector<std::string>{"bad"});
    EXPECT_EQ(result.matrices_orthogonalized, 2);
    EXPECT_EQ(bits_of(bad.weight), weight);
    EXPECT_EQ(bits_of(muon.state().at(1).values), momentum);
    EXPECT_NE(bits_of(good.weight), good_weight);
    EXPECT_NE(bits_of(last.weight), last_weight);
  }
}

TEST(MuonBehaviour, OverflowOfTheScaledGradientFails) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {3, 4}), ParameterKind::matrix);
  Muon muon(parameters.views(), {});
  view.gradient.data()[0] = 3e38F;
  const std::string before = bits_of(view.weight);
  EXPECT_EQ(muon.step({10.0, 1.0, 1}).failed, std::vector<std::string>{"w"});
  EXPECT_EQ(bits_of(view.weight), before);
  EXPECT_TRUE(muon.step({1.0, 1.0, 1}).failed.empty());
  EXPECT_NE(bits_of(view.weight), before);
}

TEST(MuonBehaviour, StepCountsWhatThePlanCounts) {
  Parameters parameters;
  std::int64_t expected = 0;
  for (const ParameterSpec& spec :
       {parameter("a", {6, 20}), parameter("b", {3, 9, 5}), fused("c", {12, 12}, 1, {5, 7})}) {
    parameters.add(spec, ParameterKind::matrix);
    expected += step_flops(spec, {NewtonSchulzAlgorithm::automatic, 5, MatrixOptimizer::muon, {}});
  }
  EXPECT_EQ(Muon(parameters.views(), {}).step({}).flops, expected);
}

TEST(MuonBehaviour, StateRestoresARun) {
  Parameters first;
  first.add(parameter("w", {10, 12}), ParameterKind::matrix);
  Parameters second;
  second.add(parameter("w", {10, 12}), ParameterKind::matrix);
  Muon original(first.views(), {});
  for (int step = 1; step <= 2; ++step)
    original.step({1.0, 1.0, step});
  Muon restored(second.views(), {});
  Kokkos::deep_copy(second.views()[0].weight, first.views()[0].weight);
  Kokkos::deep_copy(restored.state().at(0).values, original.state().at(0).values);
  original.step({1.0, 1.0, 3});
  restored.step({1.0, 1.0, 3});
  EXPECT_EQ(bits_of(first.views()[0].weight), bits_of(second.views()[0].weight));
}

TEST(MuonBehaviour, BrokenPreconditionsThrow) {
  Parameters parameters;
  ParameterView view = parameters.add(parameter("w", {4, 6}), ParameterKind::matrix);
  const auto make = [](const ParameterView& changed) { Muon({changed}, {}); };
  ParameterView tail = view;
  tail.kind = ParameterKind::tail;
  EXPECT_THROW(make(tail), ContractError);
  ParameterView part = view;
  part.elements = {0, 12};
  part.weight = slice(view.weight, 0, 12);
  part.gradient = slice(view.gradient, 0, 12);
  EXPECT_THROW(make(part), ContractError);
  ParameterView short_gradient = view;
  short_gradient.gradient = slice(view.gradient, 0, 12);
  EXPECT_THROW(make(short_gradient), ContractError);
  EXPECT_THROW(Muon({view, view}, {}), ContractError);
  ParameterSpec frozen = *view.spec;
  frozen.frozen = true;
  ParameterView frozen_view = view;
  frozen_view.spec = &frozen;
  try {
    make(frozen_view);
    FAIL() << "accepted";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("w is frozen"), std::string::npos) << error.what();
  }
  Muon muon({view}, {});
  EXPECT_THROW(muon.step({1.0, 1.0, 0}), ContractError);
  EXPECT_THROW(muon.step({std::numeric_limits<double>::quiet_NaN(), 1.0, 1}), ContractError);
}

TEST(MuonBehaviour, OptionsOutOfRangeThrow) {
  const auto make = [](auto change) {
    MuonOptions options;
    change(options);
    Muon({}, options);
  };
  EXPECT_THROW(make([](MuonOptions& o) { o.momentum = 1.0; }), InputError);
  EXPECT_THROW(make([](MuonOptions& o) { o.momentum = -0.1; }), InputError);
  EXPECT_THROW(make([](MuonOptions& o) { o.learning_rate = -1.0; }), InputError);
  EXPECT_THROW(make([](MuonOptions& o) { o.learning_rate = std::nan(""); }), InputError);
  EXPECT_THROW(make([](MuonOptions& o) { o.weight_decay = -1.0; }), InputError);
  EXPECT_THROW(make([](MuonOptions& o) { o.newton_schulz.steps = 0; }), InputError);
}

TEST(ScaleRules, NamesAndValues) {
  for (const ScaleRule rule : {ScaleRule::original, ScaleRule::match_rms_adamw, ScaleRule::spectral, ScaleRule::none}) {
    EXPECT_EQ(parse_scale_rule(name_of(rule)), rule);
  }
  EXPECT_THROW(parse_scale_rule("Original"), InputError);
  // square, tall, wide
  EXPECT_EQ(update_scale(ScaleRule::original, 9, 9), 1.0);
  EXPECT_EQ(update_scale(ScaleRule::original, 36, 9), 2.0);
  EXPECT_EQ(update_scale(ScaleRule::original, 9, 36), 1.0);
  EXPECT_DOUBLE_EQ(update_scale(ScaleRule::match_rms_adamw, 9, 9), 0.6);
  EXPECT_DOUBLE_EQ(update_scale(ScaleRule::match_rms_adamw, 36, 9), 1.2);
  EXPECT_DOUBLE_EQ(update_scale(ScaleRule::match_rms_adamw, 9, 36), 1.2);
  EXPECT_EQ(update_scale(ScaleRule::spectral, 9, 9), 1.0);
  EXPECT_EQ(update_scale(ScaleRule::spectral, 36, 9), 2.0);
  EXPECT_EQ(update_scale(ScaleRule::spectral, 9, 36), 0.5);
  EXPECT_EQ(update_scale(ScaleRule::none, 36, 9), 1.0);
  EXPECT_THROW(update_scale(ScaleRule::none, 0, 9), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
