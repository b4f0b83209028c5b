#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "nn/fast_math.hpp"

namespace matrixfsdp::nn::detail {
namespace {

/// Distance in units of the last place of the exact value (of the smallest subnormal number at least).
double ulps(float value, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(value) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(nn_fast_math, exponential_is_within_one_ulp_where_the_result_is_normal) {
  double worst = 0.0;
  // Every 97th float from the smallest normal result to the largest.
  for (const float end : {-87.33654F, 88.72283F}) {
    for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(std::abs(end)); bits += 97) {
      const float x = std::copysign(std::bit_cast<float>(bits), end);
      worst = std::max(worst, ulps(exponential(x), std::exp(static_cast<double>(x))));
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(nn_fast_math, exponential_of_subnormal_results_is_within_one_unit) {
  for (float x = -87.34F; x > -104.5F; x -= 0.001F)
    ASSERT_LE(ulps(exponential(x), std::exp(static_cast<double>(x))), 1.0) << x;
}

TEST(nn_fast_math, exponential_at_the_ends) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(0.0F), 1.0F);
  EXPECT_EQ(exponential(-0.0F), 1.0F);
  EXPECT_EQ(exponential(88.73F), infinity);
  EXPECT_EQ(exponential(3e38F), infinity);
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(-104.0F), 0.0F);
  EXPECT_EQ(exponential(-3e38F), 0.0F);
  EXPECT_EQ(exponential(-infinity), 0.0F);
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exponential(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(nn_fast_math, sigmoid_and_tanh_through_it) {
  double worst_sigmoid = 0.0;
  double worst_tanh = 0.0;
  for (float x = -80.0F; x < 80.0F; x += 0.0007F) {
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(x)));
    worst_sigmoid = std::max(worst_sigmoid, ulps(sigmoid(x), exact));
    const float tanh = 2.0F * sigmoid(2.0F * x) - 1.0F;
    worst_tanh = std::max(worst_tanh, std::abs(static_cast<double>(tanh) - std::tanh(static_cast<double>(x))));
  }
  EXPECT_LT(worst_sigmoid, 2.5);
  EXPECT_LT(worst_tanh, 2e-7);  // absolute
  EXPECT_EQ(sigmoid(-200.0F), 0.0F);
  EXPECT_EQ(sigmoid(200.0F), 1.0F);
  EXPECT_TRUE(std::isnan(sigmoid(std::numeric_limits<float>::quiet_NaN())));
}

TEST(nn_fast_math, double_is_the_library) {
  for (const double x : {-700.0, -1.25, 0.0, 3.5, 700.0})
    EXPECT_EQ(exponential(x), std::exp(x));
}

}  // namespace
}  // namespace matrixfsdp::nn::detail
