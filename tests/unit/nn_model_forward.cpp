#include <cmath>

#include <gtest/gtest.h>

#include "support/reference_transformer.hpp"
#include "support/transformer_model.hpp"

namespace matrixfsdp::test {
namespace {

struct Case {
  const char* name;
  TransformerShape shape;
};

class NnModel : public ::testing::TestWithParam<Case> {
 protected:
  TransformerShape shape = GetParam().shape;
  nn::TransformerOptions options = small_options();
  std::vector<std::int32_t> tokens = random_ids(14, 11, 1);
  std::vector<std::int32_t> targets = random_ids(14, 11, 2);
};

TEST_P(NnModel, loss_is_that_of_the_reference) {
  const WholeModel<double> model(shape);
  nn::Transformer<double> network(shape, options);
  const double expected = reference::loss(shape, model.named_weights(), 7, tokens, targets);
  EXPECT_NEAR(model.loss(network, tokens, targets), expected, 1e-12 * expected);
  EXPECT_NEAR(network.loss(model.weights[0], targets), expected, 1e-12 * expected) << "a second look changes nothing";
}

TEST_P(NnModel, float_agrees_with_the_reference_within_rounding) {
  const WholeModel<float> model(shape);
  nn::Transformer<float> network(shape, options);
  const double expected = reference::loss(shape, model.named_weights(), 7, tokens, targets);
  EXPECT_NEAR(model.loss(network, tokens, targets), expected, 2e-6 * expected);
}

TEST_P(NnModel, logits_of_every_position_are_those_of_the_reference) {
  const WholeModel<double> model(shape);
  nn::Transformer<double> network(shape, options);
  model.forward(network, tokens);
  Tensor<double> logits = make_tensor<double>("logits", 2 * 11);
  for (std::int64_t sequence = 0; sequence < 2; ++sequence) {
    const auto first = tokens.begin() + 7 * sequence;
    const auto expected = reference::logits(shape, model.named_weights(), {first, first + 7});
    for (std::int64_t position = 0; position < 7; ++position) {
      network.logits(model.weights[0], position, logits);
      for (std::size_t v = 0; v < 11; ++v)
        ASSERT_NEAR(logits(static_cast<std::size_t>(sequence) * 11 + v),
                    expected[static_cast<std::size_t>(position)][v], 1e-12);
    }
  }
}

TEST_P(NnModel, last_logits_agree_with_the_loss) {
  options.micro_batch = 1;
  const WholeModel<double> model(shape);
  nn::Transformer<double> network(shape, options);
  Tensor<double> logits = make_tensor<double>("logits", 11);
  double expected = 0.0;
  tokens.resize(7);
  targets.resize(7);
  // Only the last token's part of the loss is left when the others' parts are taken away.
  model.forward(network, tokens);
  for (std::int64_t position = 0; position < 6; ++position) {
    network.logits(model.weights[0], position, logits);
    expected += reference::minus_log_probability({logits.data(), logits.data() + 11},
                                                 targets[static_cast<std::size_t>(position)]);
  }
  network.logits(model.weights[0], 6, logits);
  const double last = reference::minus_log_probability({logits.data(), logits.data() + 11}, targets[6]);
  EXPECT_NEAR(network.loss(model.weights[0], targets) - expected, last, 1e-12);
}

TEST_P(NnModel, later_tokens_do_not_change_earlier_logits) {
  const WholeModel<float> model(shape);
  nn::Transformer<float> network(shape, options);
  Tensor<float> before = make_tensor<float>("before", 2 * 11);
  Tensor<float> after = make_tensor<float>("after", 2 * 11);
  for (std::int64_t changed = 0; changed < 7; ++changed) {
    for (std::int64_t position = 0; position < 7; ++position) {
      model.forward(network, tokens);
      network.logits(model.weights[0], position, before);
      std::vector<std::int32_t> other = tokens;
      other[static_cast<std::size_t>(changed)] = (other[static_cast<std::size_t>(changed)] + 1) % 11;
      model.forward(network, other);
      network.logits(model.weights[0], position, after);
      const bool equal = std::memcmp(before.data(), after.data(), 11 * sizeof(float)) == 0;
      EXPECT_EQ(equal, position < changed) << "token " << changed << ", logits " << position;
      EXPECT_EQ(std::memcmp(before.data() + 11, after.data() + 11, 11 * sizeof(float)), 0) << "the other sequence";
    }
  }
}

TEST_P(NnModel, blocks_of_queries_and_tokens_change_rounding_only) {
  const WholeModel<double> model(shape);
  nn::Transformer<double> network(shape, options);
  const double expected = model.loss(network, tokens, targets);
  for (const std::int64_t block : {1, 2, 7, 64}) {
    options.query_block = block;
    options.token_block = block;
    nn::Transformer<double> other(shape, options);
    EXPECT_NEAR(model.loss(other, tokens, targets), expected, 1e-12 * expected) << block;
  }
}

TEST_P(NnModel, full_sequences_are_the_default) {
  options.sequence_length = 0;
  options.micro_batch = 1;
  tokens.resize(9);
  targets.resize(9);
  const WholeModel<double> model(shape);
  nn::Transformer<double> network(shape, options);
  const double expected = reference::loss(shape, model.named_weights(), 9, tokens, targets);
  EXPECT_NEAR(model.loss(network, tokens, targets), expected, 1e-12 * expected);
}

TEST_P(NnModel, huge_logits_stay_finite_and_nan_is_told) {
  WholeModel<float> model(shape);
  nn::Transformer<float> network(shape, options);
  for (const char* const name : {"final_norm.weight"}) {
    for (std::size_t i = 0; i < model.weights[0].size(); ++i) {
      if (model.spec.units[0].parameters[i].name == name) Kokkos::deep_copy(model.weights[0][i], 1e5F);
    }
  }
  const double huge = model.loss(network, tokens, targets);
  EXPECT_TRUE(std::isfinite(huge));
  EXPECT_GT(huge, 1e4);
  model.weights[1][0].data()[0] = std::nanf("");
  EXPECT_TRUE(std::isnan(model.loss(network, tokens, targets)));
}

INSTANTIATE_TEST_SUITE_P(styles, NnModel,
                         ::testing::Values(Case{"gpt2_tied", small_gpt2(true)}, Case{"gpt2_untied", small_gpt2(false)},
                                           Case{"llama_tied", small_llama(true)},
                                           Case{"llama_untied", small_llama(false)}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace matrixfsdp::test
