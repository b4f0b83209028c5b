#include <cmath>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/attention.hpp>

#include "support/central_difference.hpp"
#include "support/reference_transformer.hpp"

namespace matrixfsdp::test {
namespace {

using reference::Dense;
using reference::gaussian;

class NnAttention : public ::testing::TestWithParam<nn::AttentionShape> {
 protected:
  nn::AttentionShape shape = GetParam();
  nn::Products products;
  Tensor<double> log_sum = make_tensor<double>("log_sum", shape.tokens() * shape.heads);
  Tensor<double> delta = make_tensor<double>("delta", shape.tokens() * shape.heads);
  Tensor<double> scratch = make_tensor<double>("scratch", shape.scratch_elements());
  Strided<double> qkv{gaussian(shape.tokens(), shape.qkv_width(), 1), 3};
  Strided<double> out{shape.tokens(), shape.heads* shape.head_dimension, 2};

  void forward() { nn::attention_forward<double>(shape, qkv.view(), out.view(), log_sum, scratch, products); }
};

TEST_P(NnAttention, values_are_those_of_the_reference) {
  forward();
  const Dense in = qkv.dense();
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    std::vector<reference::Vector> seen;
    for (std::int64_t t = 0; t < shape.sequence_length; ++t) {
      const std::int64_t token = sequence * shape.sequence_length + t;
      seen.emplace_back(in.values.begin() + token * in.cols, in.values.begin() + (token + 1) * in.cols);
      const auto expected = reference::causal_attention(seen, static_cast<std::size_t>(shape.heads),
                                                        static_cast<std::size_t>(shape.kv_heads),
                                                        static_cast<std::size_t>(shape.head_dimension));
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(out(token, static_cast<std::int64_t>(i)), expected[i], 1e-13);
    }
  }
  EXPECT_TRUE(out.gaps_are_untouched());
}

TEST_P(NnAttention, gradients_are_central_differences) {
  const Dense dy = gaussian(shape.tokens(), shape.heads * shape.head_dimension, 2);
  const Strided<double> upstream(dy, 1);
  Strided<double> gradient(shape.tokens(), shape.qkv_width(), 4);
  gradient.fill(std::nan(""));  // overwritten, not added to
  forward();
  nn::attention_backward<double>(shape, qkv.view(), out.view(), log_sum, upstream.view(), gradient.view(), delta,
                                 scratch, products);
  EXPECT_TRUE(gradient.gaps_are_untouched());
  expect_gradient("qkv", qkv.view(), gradient.view(), [&] {
    forward();
    return weighted_sum(out, dy);
  });
}

// sequences, length, heads, key and value heads, dimension, query block
INSTANTIATE_TEST_SUITE_P(shapes, NnAttention,
                         ::testing::Values(nn::AttentionShape{2, 7, 3, 3, 8, 4}, nn::AttentionShape{1, 9, 4, 2, 4, 3},
                                           nn::AttentionShape{2, 5, 6, 1, 2, 64}, nn::AttentionShape{1, 6, 2, 2, 3, 1},
                                           nn::AttentionShape{3, 1, 2, 1, 4, 8},
                                           nn::AttentionShape{1, 50, 1, 1, 5, 40}));

TEST(nn_attention, shapes_that_are_none_are_refused) {
  nn::Products products;
  const Strided<float> array(8, 64);
  const Tensor<float> vector = make_tensor<float>("vector", 512);
  // sequences, length, heads, key and value heads, dimension, query block
  for (const nn::AttentionShape& shape : {nn::AttentionShape{0, 4, 2, 1, 4, 8}, nn::AttentionShape{1, 0, 2, 1, 4, 8},
                                          nn::AttentionShape{1, 4, 0, 1, 4, 8}, nn::AttentionShape{1, 4, 2, 0, 4, 8},
                                          nn::AttentionShape{1, 4, 2, 4, 4, 8}, nn::AttentionShape{1, 4, 3, 2, 4, 8},
                                          nn::AttentionShape{1, 4, 2, 1, 0, 8}, nn::AttentionShape{1, 4, 2, 1, 4, 0}}) {
    EXPECT_THROW(nn::attention_forward<float>(shape, array.view(), array.view(), vector, vector, products),
                 ContractError);
    EXPECT_THROW(nn::attention_backward<float>(shape, array.view(), array.view(), vector, array.view(), array.view(),
                                               vector, vector, products),
                 ContractError);
  }
}

TEST(nn_attention, large_scores_do_not_overflow) {
  const nn::AttentionShape shape{1, 40, 1, 1, 4, 16};
  nn::Products products;
  Strided<float> qkv(gaussian(40, 12, 1));
  for (std::int64_t t = 0; t < 40; ++t) {
    for (std::int64_t i = 0; i < 8; ++i)
      qkv(t, i) *= 100.0F;
  }
  Strided<float> out(40, 4);
  Strided<float> gradient(40, 12);
  const Tensor<float> log_sum = make_tensor<float>("log_sum", 40);
  const Tensor<float> delta = make_tensor<float>("delta", 40);
  const Tensor<float> scratch = make_tensor<float>("scratch", shape.scratch_elements());
  nn::attention_forward<float>(shape, qkv.view(), out.view(), log_sum, scratch, products);
  nn::attention_backward<float>(shape, qkv.view(), out.view(), log_sum, out.view(), gradient.view(), delta, scratch,
                                products);
  float largest_value = 0.0F;
  for (std::int64_t t = 0; t < 40; ++t) {
    for (std::int64_t i = 0; i < 4; ++i)
      largest_value = std::max(largest_value, std::abs(qkv(t, 8 + i)));
  }
  for (std::int64_t t = 0; t < 40; ++t) {
    for (std::int64_t i = 0; i < 4; ++i)
      EXPECT_LE(std::abs(out(t, i)), largest_value) << "a mean of values";
    for (std::int64_t i = 0; i < 12; ++i)
      EXPECT_TRUE(std::isfinite(gradient(t, i)));
  }
}

}  // namespace
}  // namespace matrixfsdp::test
