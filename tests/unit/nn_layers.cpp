#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/activation.hpp>
#include <matrixfsdp/nn/embedding.hpp>
#include <matrixfsdp/nn/layer_norm.hpp>
#include <matrixfsdp/nn/linear.hpp>
#include <matrixfsdp/nn/rms_norm.hpp>
#include <matrixfsdp/nn/rotary.hpp>

#include "support/central_difference.hpp"
#include "support/reference_transformer.hpp"

/// Each layer with space between the rows: values against the reference, gradients against central differences. 37
/// columns: more than the lanes of a sum, and a remainder.
namespace matrixfsdp::test {
namespace {

using reference::Dense;
using reference::gaussian;

reference::Vector row_of(const Strided<double>& x, std::int64_t row) {
  const Dense dense = x.dense();
  return {dense.values.begin() + row * dense.cols, dense.values.begin() + (row + 1) * dense.cols};
}

reference::Vector vector_of(const Tensor<double>& values) {
  return {values.data(), values.data() + values.extent(0)};
}

TEST(nn_layer_norm, values_gradients_and_the_same_bits_again) {
  Strided<double> x(gaussian(5, 37, 1), 3);
  Strided<double> y(5, 37, 2);
  Strided<double> again(5, 37);
  const Dense dy = gaussian(5, 37, 2);
  const Strided<double> upstream(dy, 1);
  const Tensor<double> weight = random_tensor(37, 3, 1.0);
  const Tensor<double> bias = random_tensor(37, 4);
  const Tensor<double> mean = make_tensor<double>("mean", 5);
  const Tensor<double> inverse = make_tensor<double>("inverse", 5);
  const auto loss = [&] {
    nn::layer_norm_forward<double>(x.view(), weight, bias, y.view(), mean, inverse);
    return weighted_sum(y, dy);
  };
  loss();
  for (std::int64_t r = 0; r < 5; ++r) {
    const auto expected = reference::norm(row_of(x, r), vector_of(weight), vector_of(bias));
    for (std::int64_t c = 0; c < 37; ++c)
      EXPECT_NEAR(y(r, c), expected[static_cast<std::size_t>(c)], 1e-13);
  }
  nn::layer_norm_apply<double>(x.view(), weight, bias, mean, inverse, again.view());
  EXPECT_TRUE(again.bits() == y.bits());

  Strided<double> dx(5, 37, 4);
  const Tensor<double> d_weight = make_zeros<double>("d_weight", 37);
  const Tensor<double> d_bias = make_zeros<double>("d_bias", 37);
  nn::layer_norm_backward<double>(x.view(), weight, mean, inverse, upstream.view(), MatrixView<const double>(),
                                  dx.view(), d_weight, d_bias);
  expect_gradient("x", x.view(), dx.view(), loss);
  expect_gradient("weight", as_row(weight), as_row(d_weight), loss);
  expect_gradient("bias", as_row(bias), as_row(d_bias), loss);
  EXPECT_TRUE(y.gaps_are_untouched() && dx.gaps_are_untouched());

  // In place on a gradient that is already there.
  const Dense before = gaussian(5, 37, 5);
  Strided<double> sum(before, 1);
  loss();
  nn::layer_norm_backward<double>(x.view(), weight, mean, inverse, upstream.view(), sum.view(), sum.view(),
                                  TensorView<double>(), TensorView<double>());
  for (std::int64_t r = 0; r < 5; ++r) {
    for (std::int64_t c = 0; c < 37; ++c)
      EXPECT_NEAR(sum(r, c), before(r, c) + dx(r, c), 1e-14);
  }
}

TEST(nn_layer_norm, a_constant_row_gives_the_bias) {
  Strided<float> x(1, 50);
  Strided<float> y(1, 50);
  x.fill(1e4F);
  const Tensor<float> weight = make_tensor<float>("weight", 50);
  const Tensor<float> bias = make_tensor<float>("bias", 50);
  Kokkos::deep_copy(weight, 2.0F);
  Kokkos::deep_copy(bias, 0.5F);
  const Tensor<float> mean = make_tensor<float>("mean", 1);
  const Tensor<float> inverse = make_tensor<float>("inverse", 1);
  nn::layer_norm_forward<float>(x.view(), weight, bias, y.view(), mean, inverse);
  for (std::int64_t c = 0; c < 50; ++c)
    EXPECT_EQ(y(0, c), 0.5F);
}

TEST(nn_rms_norm, values_and_gradients) {
  Strided<double> x(gaussian(4, 37, 1), 3);
  Strided<double> y(4, 37, 2);
  const Dense dy = gaussian(4, 37, 2);
  const Strided<double> upstream(dy, 1);
  const Tensor<double> weight = random_tensor(37, 3, 1.0);
  const Tensor<double> inverse = make_tensor<double>("inverse", 4);
  const auto loss = [&] {
    nn::rms_norm_forward<double>(x.view(), weight, y.view(), inverse);
    return weighted_sum(y, dy);
  };
  loss();
  for (std::int64_t r = 0; r < 4; ++r) {
    const auto expected = reference::norm(row_of(x, r), vector_of(weight), {});
    for (std::int64_t c = 0; c < 37; ++c)
      EXPECT_NEAR(y(r, c), expected[static_cast<std::size_t>(c)], 1e-13);
  }
  Strided<double> dx(4, 37, 4);
  const Tensor<double> d_weight = make_zeros<double>("d_weight", 37);
  nn::rms_norm_backward<double>(x.view(), weight, inverse, upstream.view(), MatrixView<const double>(), dx.view(),
                                d_weight);
  expect_gradient("x", x.view(), dx.view(), loss);
  expect_gradient("weight", as_row(weight), as_row(d_weight), loss);
  EXPECT_TRUE(y.gaps_are_untouched() && dx.gaps_are_untouched());
}

TEST(nn_gelu, values_and_gradients) {
  Strided<double> u(gaussian(4, 37, 1), 3);
  const double special[] = {-30.0, -4.0, 0.0, 5.0, 40.0};
  for (std::int64_t i = 0; i < 5; ++i)
    u(0, i) = special[i];
  Strided<double> y(4, 37, 2);
  const Dense dy = gaussian(4, 37, 2);
  const auto loss = [&] {
    nn::gelu_forward<double>(u.view(), y.view());
    return weighted_sum(y, dy);
  };
  loss();
  const std::string bits = y.bits();
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 37; ++c)
      EXPECT_NEAR(y(r, c), reference::gelu(u(r, c)), 1e-14);
  }
  Strided<double> du(u.dense(), 1);
  Strided<double> upstream(dy, 4);
  nn::gelu_backward<double>(du.view(), upstream.view());
  expect_gradient("u", u.view(), du.view(), loss);
  EXPECT_TRUE(upstream.bits() == bits) << "y again";
  EXPECT_TRUE(du.gaps_are_untouched() && upstream.gaps_are_untouched());
}

TEST(nn_gelu, float_keeps_its_relative_accuracy_for_negative_values) {
  Strided<float> u(1, 7);
  Strided<float> y(1, 7);
  const float values[] = {-4.5F, -3.0F, -1.0F, -1e-6F, 0.0F, 2.0F, 1e4F};
  for (std::int64_t i = 0; i < 7; ++i)
    u(0, i) = values[i];
  nn::gelu_forward<float>(u.view(), y.view());
  for (std::int64_t i = 0; i < 7; ++i) {
    const double x = values[i];
    const double expected = x / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(y(0, i), expected, 2e-6 * std::abs(expected)) << x;
  }
}

TEST(nn_swiglu, values_and_gradients) {
  Strided<double> gate_up(gaussian(4, 2 * 37, 1), 3);
  Strided<double> y(4, 37, 2);
  const Dense dy = gaussian(4, 37, 2);
  const auto loss = [&] {
    nn::swiglu_forward<double>(gate_up.view(), y.view());
    return weighted_sum(y, dy);
  };
  loss();
  const std::string bits = y.bits();
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 37; ++c)
      EXPECT_NEAR(y(r, c), reference::silu(gate_up(r, c)) * gate_up(r, 37 + c), 1e-14);
  }
  Strided<double> gradient(gate_up.dense(), 1);
  Strided<double> upstream(dy, 4);
  nn::swiglu_backward<double>(gradient.view(), upstream.view());
  expect_gradient("gate_up", gate_up.view(), gradient.view(), loss);
  EXPECT_TRUE(upstream.bits() == bits) << "y again";
  EXPECT_TRUE(gradient.gaps_are_untouched() && upstream.gaps_are_untouched());
}

TEST(nn_rotary, turns_pairs_of_half_heads_and_back) {
  const Dense start = gaussian(2 * 5, 3 * 8, 1);  // 2 sequences of 5, 3 heads of 8
  Strided<double> x(start, 4);
  const nn::Rotary<double> rotary(5, 8);
  rotary.forward(x.view());
  for (std::int64_t token = 0; token < 10; ++token) {
    for (std::int64_t head = 0; head < 3; ++head) {
      reference::Vector expected(8);
      for (std::int64_t i = 0; i < 8; ++i)
        expected[static_cast<std::size_t>(i)] = start(token, head * 8 + i);
      reference::rotate(expected.data(), 8, static_cast<std::size_t>(token % 5));
      for (std::int64_t i = 0; i < 8; ++i)
        EXPECT_NEAR(x(token, head * 8 + i), expected[static_cast<std::size_t>(i)], 1e-14);
    }
  }
  rotary.backward(x.view());  // the transpose of a rotation is its inverse
  EXPECT_LT(reference::relative_distance(x.dense(), start), 1e-15);
  EXPECT_TRUE(x.gaps_are_untouched());
}

TEST(nn_rotary, extents_are_checked_before_the_table_is_made) {
  for (const std::int64_t length : {0, -3})
    EXPECT_THROW(nn::Rotary<float>(length, 8), ContractError);
  for (const std::int64_t dimension : {0, -2, 7})
    EXPECT_THROW(nn::Rotary<float>(5, dimension), ContractError);
}

TEST(nn_linear, values_and_gradients) {
  nn::Products products;
  Strided<double> x(gaussian(6, 5, 1), 2);
  Strided<double> weight(gaussian(4, 5, 2));
  const Tensor<double> bias = random_tensor(4, 3);
  Strided<double> y(6, 4, 3);
  const Dense dy = gaussian(6, 4, 4);
  const Strided<double> upstream(dy, 1);
  const auto loss = [&] {
    nn::linear_forward<double>(x.view(), weight.view(), bias, y.view(), products);
    return weighted_sum(y, dy);
  };
  loss();
  EXPECT_EQ(products.flops(), 2 * 6 * 5 * 4);
  for (std::int64_t r = 0; r < 6; ++r) {
    const auto expected = reference::linear(weight.dense().values, vector_of(bias), row_of(x, r));
    for (std::int64_t c = 0; c < 4; ++c)
      EXPECT_NEAR(y(r, c), expected[static_cast<std::size_t>(c)], 1e-13);
  }
  Strided<double> dx(6, 5, 2);
  nn::linear_input_gradient<double>(upstream.view(), weight.view(), dx.view(), products);
  const Tensor<double> d_weight = make_zeros<double>("d_weight", 20);
  const Tensor<double> d_bias = make_zeros<double>("d_bias", 4);
  nn::linear_weight_gradient<double>(upstream.view(), x.view(), d_weight, d_bias, products);
  expect_gradient("x", x.view(), dx.view(), loss);
  expect_gradient("weight", weight.view(), MatrixView<double>(d_weight.data(), 4, 5), loss);
  expect_gradient("bias", as_row(bias), as_row(d_bias), loss);
  EXPECT_TRUE(y.gaps_are_untouched() && dx.gaps_are_untouched());

  loss();
  Strided<double> residual(gaussian(6, 4, 5), 2);
  const Dense start = residual.dense();
  nn::linear_residual_forward<double>(x.view(), weight.view(), bias, residual.view(), residual.view(), products);
  for (std::int64_t r = 0; r < 6; ++r) {
    for (std::int64_t c = 0; c < 4; ++c)
      EXPECT_NEAR(residual(r, c), start(r, c) + y(r, c), 1e-13);
  }
}

// 1000 columns are several chunks, and 300 rows of integers are summed exactly.
TEST(nn_linear, bias_gradient_of_many_columns) {
  nn::Products products;
  const Dense dy = integers(300, 1000, 1);
  const Strided<float> upstream(dy, 7);
  const Strided<float> x(300, 1);
  const Tensor<float> d_bias = make_tensor<float>("d_bias", 1000);
  Kokkos::deep_copy(d_bias, 5.0F);
  nn::linear_weight_gradient<float>(upstream.view(), x.view(), TensorView<float>(), d_bias, products);
  for (std::int64_t c = 0; c < 1000; ++c) {
    double expected = 5.0;
    for (std::int64_t r = 0; r < 300; ++r)
      expected += dy(r, c);
    ASSERT_EQ(d_bias.data()[c], expected) << c;
  }
}

TEST(nn_embedding, sums_rows_and_adds_gradients_of_repeated_tokens) {
  const Strided<double> tokens(integers(4, 300, 1));
  const Strided<double> positions(integers(3, 300, 2));
  const std::int32_t ids[] = {2, 0, 2, 2, 1, 0};  // 2 sequences of 3; token 3 never
  const Tensor<std::int32_t> id = make_tensor<std::int32_t>("ids", 6);
  std::copy(ids, ids + 6, id.data());
  Strided<double> y(6, 300, 1);
  nn::embedding_forward<double>(id, tokens.view(), positions.view(), 3, y.view());
  const Dense dy = integers(6, 300, 3);
  const Strided<double> upstream(dy, 2);
  Strided<double> d_tokens(4, 300);
  Strided<double> d_positions(3, 300);
  d_tokens.fill(10.0);
  d_positions.fill(20.0);
  nn::embedding_backward<double>(id, upstream.view(), 3, d_tokens.view(), d_positions.view());
  Dense expected_tokens(4, 300);
  Dense expected_positions(3, 300);
  for (std::int64_t r = 0; r < 6; ++r) {
    for (std::int64_t c = 0; c < 300; ++c) {
      EXPECT_EQ(y(r, c), tokens(ids[r], c) + positions(r % 3, c));
      expected_tokens(ids[r], c) += dy(r, c);
      expected_positions(r % 3, c) += dy(r, c);
    }
  }
  for (std::int64_t c = 0; c < 300; ++c) {
    for (std::int64_t v = 0; v < 4; ++v)
      EXPECT_EQ(d_tokens(v, c), 10.0 + expected_tokens(v, c));
    for (std::int64_t p = 0; p < 3; ++p)
      EXPECT_EQ(d_positions(p, c), 20.0 + expected_positions(p, c));
  }
}

}  // namespace
}  // namespace matrixfsdp::test
