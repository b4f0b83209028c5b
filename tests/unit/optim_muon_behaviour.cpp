#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/muon.hpp>
#include <matrixfsdp/optim/routing.hpp>

#include "optim_fixture.hpp"

// What Muon does beside what all matrix optimizers do (optim_matrix_optimizers.cpp).
namespace matrixfsdp {
namespace {

using test::bits_of;
using test::fused;
using test::parameter;
using test::Parameters;
using test::values_of;

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

// CASES 21: the norm is per matrix. A head that is 100 times as large has the update of its direction.
TEST(MuonBehaviour, BatchIsNormalisedPerMatrix) {
  Parameters small;
  const ParameterView plain = small.add(parameter("heads", {2, 6, 8}), ParameterKind::matrix);
  Parameters large;
  const ParameterView scaled = large.add(parameter("heads", {2, 6, 8}), ParameterKind::matrix);
  for (int i = 48; i < 96; ++i)
    scaled.gradient.data()[i] *= 100.0F;
  Muon(small.views(), {}).step({});
  Muon(large.views(), {}).step({});
  for (int i = 0; i < 96; ++i)
    EXPECT_NEAR(plain.weight.data()[i], scaled.weight.data()[i], 1e-5);
}

// CASES 22
TEST(MuonBehaviour, WorkspaceIsThatOfTheLargestParameterAndMatrix) {
  Parameters parameters;
  parameters.add(parameter("a", {6, 20}), ParameterKind::matrix);
  parameters.add(parameter("b", {12, 12}), ParameterKind::matrix);
  parameters.add(parameter("c", {2, 18, 5}), ParameterKind::matrix);
  const Muon muon(parameters.views(), {});
  const std::int64_t direction = 4 * 180;     // the largest parameter
  const std::int64_t iterate = 4 * 144;       // the largest matrix
  const std::int64_t products = 4 * 2 * 144;  // standard on 12x12; Gram on 6x20 needs 4 * 36
  EXPECT_EQ(muon.workspace_bytes(), direction + iterate + products + 8);
  EXPECT_EQ(muon.state_bytes(), 4 * (120 + 144 + 180));
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
    expected += step_flops(spec, cost_of({}));
  }
  EXPECT_EQ(Muon(parameters.views(), {}).step({}).flops, expected);
}

TEST(MuonBehaviour, OptionsOutOfRangeThrow) {
  constexpr auto make = &test::make_with<Muon, MuonOptions>;
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
