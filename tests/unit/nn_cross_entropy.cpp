#include <cmath>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/cross_entropy.hpp>

#include "support/central_difference.hpp"
#include "support/reference_transformer.hpp"

namespace matrixfsdp::test {
namespace {

using reference::gaussian;

Tensor<std::int32_t> some_targets(std::int64_t count, std::int64_t vocabulary) {
  Tensor<std::int32_t> targets = make_tensor<std::int32_t>("targets", count);
  const CounterRandom random(3, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    targets.data()[i] =
        static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocabulary)));
  }
  return targets;
}

TEST(nn_cross_entropy, value_and_gradients_for_any_block) {
  nn::Products products;
  Strided<double> x(gaussian(7, 5, 1), 2);
  Strided<double> weight(gaussian(37, 5, 2));
  const Tensor<std::int32_t> targets = some_targets(7, 37);
  const Tensor<double> losses = make_tensor<double>("losses", 7);
  double expected = 0.0;
  for (std::int64_t r = 0; r < 7; ++r) {
    const reference::Dense dense = x.dense();
    const reference::Vector row(dense.values.begin() + r * 5, dense.values.begin() + (r + 1) * 5);
    expected += reference::minus_log_probability(reference::linear(weight.dense().values, {}, row), targets.data()[r]);
  }
  for (const std::int64_t block : {1, 3, 7, 20}) {
    const Tensor<double> scratch = make_tensor<double>("logits", block * 37);
    const auto loss = [&] {
      return 0.7 * nn::linear_cross_entropy<double>(x.view(), weight.view(), targets, scratch, losses, products);
    };
    EXPECT_NEAR(loss(), 0.7 * expected, 1e-12);
    Strided<double> dx(7, 5, 1);
    const Tensor<double> d_weight = make_zeros<double>("d_weight", 37 * 5);
    const double sum = nn::linear_cross_entropy_backward<double>(x.view(), weight.view(), targets, 0.7, dx.view(),
                                                                 d_weight, scratch, losses, products);
    EXPECT_NEAR(sum, expected, 1e-12);
    expect_gradient("x", x.view(), dx.view(), loss);
    expect_gradient("weight", weight.view(), MatrixView<double>(d_weight.data(), 37, 5), loss);
    EXPECT_TRUE(dx.gaps_are_untouched());
  }
}

// 20000 equal logits: log(20000) for each row, to float32's relative accuracy although the sum has 20000 terms.
TEST(nn_cross_entropy, wide_vocabulary_in_float) {
  nn::Products products;
  constexpr std::int64_t vocabulary = 20000;
  Strided<float> x(3, 2);
  Strided<float> weight(vocabulary, 2);
  x.fill(1.0F);
  weight.fill(0.3F);
  const Tensor<std::int32_t> targets = some_targets(3, vocabulary);
  const Tensor<float> scratch = make_tensor<float>("logits", 2 * vocabulary);
  const Tensor<double> losses = make_tensor<double>("losses", 3);
  const double sum = nn::linear_cross_entropy<float>(x.view(), weight.view(), targets, scratch, losses, products);
  EXPECT_NEAR(sum, 3.0 * std::log(20000.0), 1e-9);
}

TEST(nn_cross_entropy, vocabulary_without_rows_is_refused) {
  nn::Products products;
  const Strided<float> x(3, 2);
  const Strided<float> weight(0, 2);
  const Tensor<float> scratch = make_tensor<float>("logits", 10);
  const Tensor<double> losses = make_tensor<double>("losses", 3);
  EXPECT_THROW(nn::linear_cross_entropy<float>(x.view(), weight.view(), some_targets(3, 1), scratch, losses, products),
               ContractError);
}

TEST(nn_cross_entropy, scratch_below_one_row_is_refused) {
  nn::Products products;
  const Strided<float> x(3, 2);
  const Strided<float> weight(11, 2);
  const Tensor<float> scratch = make_tensor<float>("logits", 10);
  const Tensor<double> losses = make_tensor<double>("losses", 3);
  EXPECT_THROW(nn::linear_cross_entropy<float>(x.view(), weight.view(), some_targets(3, 11), scratch, losses, products),
               ContractError);
}

}  // namespace
}  // namespace matrixfsdp::test
