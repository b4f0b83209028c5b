#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/optim/muon.hpp>

#include "optim_fixture.hpp"
#include "support/polynomials.hpp"
#include "support/reference_optim.hpp"

// Muon against a reference in double that orthogonalizes by SVD, over several steps.
namespace matrixfsdp {
namespace {

using reference::Block;
using test::doubles_of;
using test::fused;
using test::parameter;
using test::Parameters;

double largest_difference(const TensorView<float>& view, const std::vector<double>& expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(view.data()[i]) - expected[i]));
  }
  return largest;
}

reference::Steps steps_of(const NewtonSchulzOptions& options) {
  const QuinticSequence* given = options.coefficients;
  return test::steps_of(given != nullptr ? *given : quintic_sequence("polar-express"), options.steps);
}

using Scale = double (*)(double, double);
Scale scale_of(ScaleRule rule) {
  switch (rule) {
    case ScaleRule::original:
      return reference::scale_original;
    case ScaleRule::match_rms_adamw:
      return reference::scale_match_rms_adamw;
    case ScaleRule::spectral:
      return reference::scale_spectral;
    case ScaleRule::none:
      return reference::scale_none;
  }
  return nullptr;
}

// Four steps with changing gradients, gradient scale and schedule; weights and momenta within rounding of the
// reference.
void compare(const ParameterSpec& spec, const std::vector<Block>& blocks, const MuonOptions& options,
             const ParameterGroup& group = {}) {
  SCOPED_TRACE(spec.name + " " + to_string(spec.shape) + " " + std::string(name_of(options.scale)) +
               (options.nesterov ? " nesterov" : ""));
  Parameters parameters;
  const ParameterView view = parameters.add(spec, ParameterKind::matrix, group);
  Muon muon({view}, options);
  reference::Muon expected(
      {steps_of(options.newton_schulz), options.learning_rate * group.learning_rate_scale,
       group.weight_decay.value_or(options.weight_decay), options.momentum, options.nesterov, scale_of(options.scale)},
      doubles_of(view.weight), blocks);
  for (int step = 1; step <= 4; ++step) {
    parameters.draw_gradients(static_cast<std::uint64_t>(10 + step), step == 3 ? 100.0 : 1.0);
    const double gradient_scale = step == 2 ? 0.25 : 1.0;
    const double schedule = 1.0 / step;
    const StepResult result = muon.step({gradient_scale, schedule, step});
    EXPECT_EQ(result.matrices_orthogonalized, static_cast<std::int64_t>(blocks.size()));
    EXPECT_TRUE(result.failed.empty());
    expected.step(doubles_of(view.gradient), gradient_scale, schedule);
    EXPECT_LT(largest_difference(muon.state().at(0).values, expected.momentum()), 2e-6 * (step >= 3 ? 10.0 : 1.0));
  }
  EXPECT_LT(largest_difference(view.weight, expected.weight()), 5e-6);
}

// CASES 20: odd sizes. CASES 4: one row and one column, where a user has made them matrices.
TEST(MuonReference, ShapesWithAndWithoutNesterov) {
  for (const bool nesterov : {true, false}) {
    MuonOptions options;
    options.nesterov = nesterov;
    options.weight_decay = 0.1;
    for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {16, 16}, {33, 17}, {17, 33}, {12, 50}, {1, 9}, {9, 1}, {1, 1}}) {
      compare(parameter("w", {rows, cols}), {{0, rows, cols, cols}}, options);
    }
  }
}

TEST(MuonReference, AlgorithmsAndCoefficients) {
  for (const char* name : {"keller-jordan", "you", "polar-express-8"}) {
    for (const NewtonSchulzAlgorithm algorithm :
         {NewtonSchulzAlgorithm::standard, NewtonSchulzAlgorithm::gram, NewtonSchulzAlgorithm::gram_no_restart}) {
      MuonOptions options;
      options.newton_schulz.algorithm = algorithm;
      options.newton_schulz.coefficients = &quintic_sequence(name);
      options.newton_schulz.steps = options.newton_schulz.coefficients->default_steps;
      compare(parameter("w", {12, 30}), {{0, 12, 30, 30}}, options);
    }
  }
  compare(parameter("w", {12, 30}), {{0, 12, 30, 30}}, torch_muon_options());
}

// CASES 13 and 14: blocks of rows and of columns, each by itself, the axis explicit where both would divide.
TEST(MuonReference, Blocks) {
  MuonOptions options;
  options.weight_decay = 0.05;
  compare(fused("rows", {12, 12}, 0, {4, 4, 4}), {{0, 4, 12, 12}, {48, 4, 12, 12}, {96, 4, 12, 12}}, options);
  compare(fused("rows", {12, 4}, 0, {8, 2, 2}), {{0, 8, 4, 4}, {32, 2, 4, 4}, {40, 2, 4, 4}}, options);
  compare(fused("cols", {12, 12}, 1, {4, 4, 4}), {{0, 12, 4, 12}, {4, 12, 4, 12}, {8, 12, 4, 12}}, options);
  compare(fused("cols", {5, 17}, 1, {9, 1, 7}), {{0, 5, 9, 17}, {9, 5, 1, 17}, {10, 5, 7, 17}}, options);
}

// CASES 15: (e, r, c) is a batch of e matrices; four dimensions are (first, the rest).
TEST(MuonReference, MoreThanTwoDimensions) {
  compare(parameter("experts", {2, 4, 4}), {{0, 4, 4, 4}, {16, 4, 4, 4}}, {});
  compare(parameter("experts", {3, 5, 7}), {{0, 5, 7, 7}, {35, 5, 7, 7}, {70, 5, 7, 7}}, {});
  compare(parameter("convolution", {8, 3, 3, 3}), {{0, 8, 27, 27}}, {});
}

// CASES 23: every rule on square, tall and wide.
TEST(MuonReference, ScaleRules) {
  for (const ScaleRule rule : {ScaleRule::original, ScaleRule::match_rms_adamw, ScaleRule::spectral, ScaleRule::none}) {
    MuonOptions options;
    options.scale = rule;
    compare(parameter("square", {8, 8}), {{0, 8, 8, 8}}, options);
    compare(parameter("tall", {24, 6}), {{0, 24, 6, 6}}, options);
    compare(parameter("wide", {6, 24}), {{0, 6, 24, 24}}, options);
  }
}

// CASES 28
TEST(MuonReference, Groups) {
  MuonOptions options;
  options.weight_decay = 0.3;
  compare(parameter("w", {8, 10}), {{0, 8, 10, 10}}, options, {"half", 0.5, std::nullopt});
  compare(parameter("w", {8, 10}), {{0, 8, 10, 10}}, options, {"none", 1.0, 0.0});
  compare(parameter("w", {8, 10}), {{0, 8, 10, 10}}, options, {"some", 2.0, 0.1});
}

}  // namespace
}  // namespace matrixfsdp
