#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/optim/muon.hpp>

#include "optim_fixture.hpp"
#include "support/golden/muon.hpp"

// What KellerJordan/Muon and torch.optim.Muon compute (tests/support/golden/muon.py).
namespace matrixfsdp {
namespace {

using test::parameter;
using test::Parameters;

struct Golden {
  std::int64_t rows;
  std::int64_t cols;
  const std::vector<double>& direction;
  const std::vector<double>& rounded;
  const std::vector<double>& trained;
  const std::vector<double>& tiny;
};

const std::vector<Golden>& all() {
  static const std::vector<Golden> table{
      {4, 6, golden::direction_4x6, golden::rounded_4x6, golden::trained_4x6, golden::tiny_4x6},
      {6, 4, golden::direction_6x4, golden::rounded_6x4, golden::trained_6x4, golden::tiny_6x4},
      {5, 5, golden::direction_5x5, golden::rounded_5x5, golden::trained_5x5, golden::tiny_5x5},
      {1, 7, golden::direction_1x7, golden::rounded_1x7, golden::trained_1x7, golden::tiny_1x7}};
  return table;
}

/// As muon.py makes them.
void fill(const TensorView<float>& values, std::int64_t seed, std::int64_t cols, float scale = 1) {
  for (std::int64_t e = 0; e < static_cast<std::int64_t>(values.extent(0)); ++e) {
    const std::int64_t i = e / cols;
    const std::int64_t j = e % cols;
    values.data()[e] =
        scale * static_cast<float>((7 * i + 13 * j + 5 * i * j + seed * (i + 2 * j + 3)) % 17 - 8) / 8.0F;
  }
}

double relative_distance(const TensorView<float>& values, const std::vector<double>& expected) {
  EXPECT_EQ(values.extent(0), expected.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(values.data()[i]) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

TEST(MuonGolden, NewtonSchulzOfKellerJordan) {
  NewtonSchulzWorkspace<float> workspace;
  for (const Golden& g : all()) {
    SCOPED_TRACE(std::to_string(g.rows) + "x" + std::to_string(g.cols));
    const Tensor<float> input = make_tensor<float>("input", g.rows * g.cols);
    const Tensor<float> output = make_tensor<float>("output", g.rows * g.cols);
    fill(input, 1, g.cols);
    NewtonSchulzOptions options = torch_muon_options().newton_schulz;
    options.norm_floor = 0;
    const auto run = [&] {
      orthogonalize<float>({input.data(), g.rows, g.cols}, {output.data(), g.rows, g.cols}, options, workspace);
    };
    for (const NewtonSchulzAlgorithm algorithm :
         {NewtonSchulzAlgorithm::standard, NewtonSchulzAlgorithm::gram, NewtonSchulzAlgorithm::gram_no_restart}) {
      options.algorithm = algorithm;
      run();
      EXPECT_LT(relative_distance(output, g.direction), 1e-5) << name_of(algorithm);
    }
    // Theirs rounds more often than ours, and is 0.04 from its own direction in double.
    EXPECT_LT(relative_distance(output, g.rounded), 5e-2) << "theirs in bfloat16";
    if (!linalg::bfloat16_obstacle().empty()) continue;  // orthogonalize_bfloat16.cpp says what happens then
    options.algorithm = NewtonSchulzAlgorithm::standard;
    options.dtype = DType::bfloat16;
    run();
    EXPECT_LT(relative_distance(output, g.rounded), 7e-2) << "both in bfloat16";
    EXPECT_LT(relative_distance(output, g.direction), 5e-2) << "ours in bfloat16";
  }
}

// Three steps with the preset; with gradients of a norm below 1e-7 torch's divisor shows.
TEST(MuonGolden, TorchOptimMuon) {
  for (const Golden& g : all()) {
    for (const bool tiny : {false, true}) {
      SCOPED_TRACE(std::to_string(g.rows) + "x" + std::to_string(g.cols) + (tiny ? " tiny" : ""));
      const auto train = [&](const MuonOptions& options) {
        Parameters parameters;
        const ParameterView view = parameters.add(parameter("w", {g.rows, g.cols}), ParameterKind::matrix);
        fill(view.weight, 1, g.cols);
        Muon muon({view}, options);
        for (int step = 1; step <= 3; ++step) {
          fill(view.gradient, 1 + step, g.cols, tiny ? std::ldexp(1.0F, -30) : 1.0F);
          EXPECT_TRUE(muon.step({1.0, 1.0, step}).failed.empty());
        }
        // The change of the weight, which is small beside the weight itself.
        std::vector<double> expected = tiny ? g.tiny : g.trained;
        const Tensor<float> start = make_tensor<float>("start", view.elements.size());
        fill(start, 1, g.cols);
        const Tensor<float> change = make_tensor<float>("change", view.elements.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] -= static_cast<double>(start.data()[i]);
          change.data()[i] = view.weight.data()[i] - start.data()[i];
        }
        return relative_distance(change, expected);
      };
      MuonOptions options = torch_muon_options();
      EXPECT_LT(train(options), 2e-4);
      options.newton_schulz.norm_floor = 0;
      const double without = train(options);
      EXPECT_TRUE(tiny ? without > 1e-2 : without < 2e-4) << "without its divisor: " << without;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
