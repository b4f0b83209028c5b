#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "support/transformer_model.hpp"

namespace matrixfsdp::test {
namespace {

struct Case {
  const char* name;
  TransformerShape shape;
  bool recompute;
};

class NnGradient : public ::testing::TestWithParam<Case> {
 protected:
  TransformerShape shape = GetParam().shape;
  nn::TransformerOptions options = small_options(GetParam().recompute);
  std::vector<std::int32_t> tokens = random_ids(14, 11, 1);
  std::vector<std::int32_t> targets = random_ids(14, 11, 2);
};

double largest(const TensorView<double>& values) {
  double result = 0.0;
  for (std::size_t i = 0; i < values.extent(0); ++i)
    result = std::max(result, std::abs(values(i)));
  return result;
}

TEST_P(NnGradient, of_every_parameter_is_the_central_difference) {
  constexpr double scale = 0.37;
  constexpr double step = 1e-5;
  WholeModel<double> model(shape);
  nn::Transformer<double> network(shape, options);
  const double sum = model.pass(network, tokens, targets, scale);
  EXPECT_EQ(sum, model.loss(network, tokens, targets)) << "with and without gradients";
  for (std::size_t u = 0; u < model.weights.size(); ++u) {
    for (std::size_t p = 0; p < model.weights[u].size(); ++p) {
      const std::string& name = model.spec.units[u].parameters[p].name;
      TensorView<double>& weight = model.weights[u][p];
      const TensorView<double>& gradient = model.gradients[u][p];
      const double size = largest(gradient);
      EXPECT_GT(size, 1e-4) << name;
      for (std::size_t i = 0; i < weight.extent(0); ++i) {
        const double kept = weight(i);
        weight(i) = kept + step;
        const double above = model.loss(network, tokens, targets);
        weight(i) = kept - step;
        const double below = model.loss(network, tokens, targets);
        weight(i) = kept;
        const double expected = scale * (above - below) / (2.0 * step);
        ASSERT_NEAR(gradient(i), expected, 1e-6 * size) << name << " element " << i;
      }
    }
  }
}

TEST_P(NnGradient, float_agrees_with_double_within_rounding) {
  WholeModel<double> exact(shape);
  WholeModel<float> model(shape);
  nn::Transformer<double> exact_network(shape, options);
  nn::Transformer<float> network(shape, options);
  exact.pass(exact_network, tokens, targets, 0.25);
  model.pass(network, tokens, targets, 0.25F);
  for (std::size_t u = 0; u < model.weights.size(); ++u) {
    for (std::size_t p = 0; p < model.weights[u].size(); ++p) {
      const TensorView<double>& expected = exact.gradients[u][p];
      const double tolerance = 2e-5 * largest(expected);
      for (std::size_t i = 0; i < expected.extent(0); ++i)
        ASSERT_NEAR(static_cast<double>(model.gradients[u][p](i)), expected(i), tolerance)
            << model.spec.units[u].parameters[p].name << " element " << i;
    }
  }
}

TEST_P(NnGradient, adds_to_what_is_there) {
  WholeModel<double> from_zero(shape);
  WholeModel<double> from_two(shape);
  nn::Transformer<double> network(shape, options);
  from_zero.pass(network, tokens, targets, 1.0);
  from_two.fill_gradients(2.0);
  from_two.pass(network, tokens, targets, 1.0);
  for (std::size_t u = 0; u < from_zero.weights.size(); ++u) {
    for (std::size_t p = 0; p < from_zero.weights[u].size(); ++p) {
      for (std::size_t i = 0; i < from_zero.gradients[u][p].extent(0); ++i)
        ASSERT_NEAR(from_two.gradients[u][p](i), from_zero.gradients[u][p](i) + 2.0, 1e-12);
    }
  }
}

TEST_P(NnGradient, bits_repeat_whatever_ran_before) {
  WholeModel<float> model(shape);
  nn::Transformer<float> network(shape, options);
  const double first = model.pass(network, tokens, targets, 0.5F);
  const std::string bits = model.gradient_bits();
  model.pass(network, targets, tokens, 3.0F);
  model.fill_gradients(0.0F);
  EXPECT_EQ(model.pass(network, tokens, targets, 0.5F), first);
  EXPECT_TRUE(model.gradient_bits() == bits);
  nn::Transformer<float> fresh(shape, options);
  model.fill_gradients(0.0F);
  EXPECT_EQ(model.pass(fresh, tokens, targets, 0.5F), first);
  EXPECT_TRUE(model.gradient_bits() == bits);
}

// An empty gradient is a frozen parameter: skipped, and nothing else changes by a bit.
TEST_P(NnGradient, frozen_parameters_are_skipped) {
  WholeModel<float> all(shape);
  nn::Transformer<float> network(shape, options);
  const double sum = all.pass(network, tokens, targets, 1.0F);
  for (std::size_t kept = 0; kept < 3; ++kept) {
    WholeModel<float> some(shape);
    for (auto& unit : some.gradients) {
      for (std::size_t p = 0; p < unit.size(); ++p) {
        // Zero elements at an address, or none.
        if (p % 3 != kept) unit[p] = p % 2 == 0 ? TensorView<float>() : slice(unit[p], 0, 0);
      }
    }
    EXPECT_EQ(some.pass(network, tokens, targets, 1.0F), sum);
    for (std::size_t u = 0; u < some.gradients.size(); ++u) {
      for (std::size_t p = kept; p < some.gradients[u].size(); p += 3) {
        const std::size_t bytes = some.gradients[u][p].extent(0) * sizeof(float);
        EXPECT_EQ(std::memcmp(some.gradients[u][p].data(), all.gradients[u][p].data(), bytes), 0)
            << some.spec.units[u].parameters[p].name;
      }
    }
  }
}

TEST_P(NnGradient, zero_scale_gives_zero_gradients) {
  WholeModel<float> model(shape);
  nn::Transformer<float> network(shape, options);
  EXPECT_GT(model.pass(network, tokens, targets, 0.0F), 0.0);
  for (const auto& unit : model.gradients) {
    for (const auto& gradient : unit) {
      for (std::size_t i = 0; i < gradient.extent(0); ++i)
        ASSERT_EQ(gradient(i), 0.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(styles, NnGradient,
                         ::testing::Values(Case{"gpt2_tied", small_gpt2(true), false},
                                           Case{"gpt2_untied_recompute", small_gpt2(false), true},
                                           Case{"llama_tied_recompute", small_llama(true), true},
                                           Case{"llama_untied", small_llama(false), false}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(nn_recompute, gives_the_same_bits) {
  for (const TransformerShape& shape : {small_gpt2(), small_llama()}) {
    const auto tokens = random_ids(14, 11, 3);
    const auto targets = random_ids(14, 11, 4);
    WholeModel<float> kept(shape);
    WholeModel<float> again(shape);
    nn::Transformer<float> kept_network(shape, small_options(false));
    nn::Transformer<float> again_network(shape, small_options(true));
    EXPECT_EQ(kept.pass(kept_network, tokens, targets, 1.0F), again.pass(again_network, tokens, targets, 1.0F));
    EXPECT_TRUE(kept.gradient_bits() == again.gradient_bits());
    EXPECT_EQ(kept_network.product_flops(), again_network.product_flops());
    EXPECT_LT(kept_network.recompute_flops(), again_network.recompute_flops());
    EXPECT_LT(again_network.activation_bytes(), kept_network.activation_bytes());
  }
}

}  // namespace
}  // namespace matrixfsdp::test
