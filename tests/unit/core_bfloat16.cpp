#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <matrixfsdp/core/bfloat16.hpp>

namespace matrixfsdp {
namespace {

/// Value of a bfloat16 pattern without its sign, from the definition: 8 exponent bits, 7 of mantissa. The pattern of
/// infinity counts as 2^128, which is where rounding sends what is at least halfway there.
double magnitude(std::uint32_t pattern) {
  const auto exponent = static_cast<int>(pattern >> 7);
  const auto mantissa = static_cast<double>(pattern & 0x7fU);
  if (exponent == 0) return std::ldexp(mantissa, -126 - 7);
  return std::ldexp(128.0 + mantissa, exponent - 127 - 7);
}

/// Nearest pattern by comparing distances in double (all exact), ties to the even one.
std::uint16_t slow_round(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000U : 0U;
  const double wanted = std::fabs(static_cast<double>(value));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7f80U);
  std::uint32_t low = 0;
  std::uint32_t high = 0x7f80;  // the largest pattern whose magnitude is at most `wanted`, by bisection
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (magnitude(middle) <= wanted ? low : high) = middle;
  }
  const double below = wanted - magnitude(low);
  const double above = magnitude(high) - wanted;
  const bool up = above < below || (above == below && (low & 1U) == 1U);
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

// Every pattern of the upper half, with the lower halves around zero, the tie and the end: all decisions that rounding
// takes.
TEST(Bfloat16, rounds_to_nearest_even_for_every_upper_half) {
  constexpr std::uint32_t lower_halves[] = {0x0000, 0x0001, 0x1234, 0x7ffe, 0x7fff, 0x8000,
                                            0x8001, 0x8002, 0xabcd, 0xfffe, 0xffff};
  for (std::uint32_t upper = 0; upper <= 0xffff; ++upper) {
    for (const std::uint32_t lower : lower_halves) {
      const std::uint32_t word = (upper << 16) | lower;
      const auto value = std::bit_cast<float>(word);
      const std::uint16_t rounded = to_bfloat16(value).bits;
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(to_float({rounded}))) << std::hex << word;
        ASSERT_EQ(rounded & 0x8000U, upper & 0x8000U) << std::hex << word;
        ASSERT_NE(rounded & 0x0040U, 0U) << "a quiet NaN of " << std::hex << word;
      } else {
        ASSERT_EQ(rounded, slow_round(value)) << std::hex << word;
      }
    }
  }
}

TEST(Bfloat16, every_pattern_survives_the_way_through_float) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      ASSERT_EQ(to_bfloat16(wide).bits, bits | 0x0040U);
    } else {
      ASSERT_EQ(to_bfloat16(wide), value) << std::hex << bits;
    }
  }
}

// CASES 63
TEST(Bfloat16, values_of_case_63_come_back_bit_for_bit) {
  for (const std::uint16_t bits : {0x3f80, 0x3f81, 0x7fc0, 0xff80, 0x0001})
    EXPECT_EQ(to_bfloat16(to_float({bits})).bits, bits) << std::hex << bits;
  EXPECT_EQ(to_float({0x3f80}), 1.0F);
  EXPECT_EQ(to_float({0x3f81}), 1.0078125F);
  EXPECT_EQ(to_float({0xff80}), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float({0x0001}), std::ldexp(1.0F, -133));
  EXPECT_TRUE(std::isnan(to_float({0x7fc0})));
}

TEST(Bfloat16, known_roundings) {
  EXPECT_EQ(to_bfloat16(1.00390625F).bits, 0x3f80);  // 1 + 2^-8, a tie: down to even
  EXPECT_EQ(to_bfloat16(1.01171875F).bits, 0x3f82);  // 1 + 3 * 2^-8, a tie: up to even
  EXPECT_EQ(to_bfloat16(-0.0F).bits, 0x8000);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  static_assert(to_bfloat16(257.0F) == bfloat16{0x4380}, "256 + 1 does not fit 8 bits of mantissa");
}

}  // namespace
}  // namespace matrixfsdp
