#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/tensor/wire.hpp>

#include "support/oracle/rounding.hpp"

namespace matrixfsdp {
namespace {

/// Every length up to 300, and longer ones around powers of two.
std::vector<std::int64_t> lengths() {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i <= 300; ++i)
    all.push_back(i);
  for (const std::int64_t i : {1023, 1024, 1025, 65535, 65536, 65537, 100003})
    all.push_back(i);
  return all;
}

/// Another value in every element, with all exponents.
float value_at(std::int64_t i) {
  const auto bits = static_cast<std::uint32_t>(i + 1) * 2654435761U;
  const auto value = std::bit_cast<float>(bits);
  return std::isfinite(value) ? value : static_cast<float>(i);
}

Tensor<float> values(std::int64_t count) {
  Tensor<float> all = make_tensor<float>("values", count);
  for (std::int64_t i = 0; i < count; ++i)
    all(static_cast<std::size_t>(i)) = value_at(i);
  return all;
}

float rounded(std::int64_t i) {
  return static_cast<float>(oracle::round_to_bfloat16(value_at(i)));
}

std::uint16_t word_of(std::int64_t i) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded(i)) >> 16);
}

TEST(Wire, words_in_the_upper_half_are_widened_in_place) {
  for (const std::int64_t count : lengths()) {
    const Tensor<float> buffer = make_tensor<float>("buffer", count);
    round_to_words(values(count), upper_words(buffer));
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(upper_words(buffer)(static_cast<std::size_t>(i)).bits, word_of(i)) << count << " elements, " << i;
    widen(buffer);
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(buffer(static_cast<std::size_t>(i))),
                std::bit_cast<std::uint32_t>(rounded(i)))
          << count << " elements, " << i;
    }
  }
}

TEST(Wire, elements_are_rounded_into_the_lower_half_in_place) {
  for (const std::int64_t count : lengths()) {
    const Tensor<float> buffer = values(count);
    round_in_place(buffer);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(lower_words(buffer)(static_cast<std::size_t>(i)).bits, word_of(i)) << count << " elements, " << i;
  }
}

TEST(Wire, rounding_without_a_journey_gives_the_same_bits) {
  for (const std::int64_t count : lengths()) {
    const Tensor<float> from = values(count);
    const Tensor<float> to = make_tensor<float>("to", count);
    round_through_words(from, to);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(to(at)), std::bit_cast<std::uint32_t>(rounded(i))) << i;
      ASSERT_EQ(from(at), value_at(i));
    }
    round_through_words(from, from);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(from(static_cast<std::size_t>(i)), rounded(i));
  }
}

TEST(Wire, what_is_not_a_number_stays_so) {
  Tensor<float> buffer = make_tensor<float>("buffer", 3);
  buffer(0) = std::numeric_limits<float>::quiet_NaN();
  buffer(1) = -std::numeric_limits<float>::infinity();
  buffer(2) = std::bit_cast<float>(0x7f800001U);  // its upper word alone is that of infinity
  round_through_words(buffer, buffer);
  EXPECT_TRUE(std::isnan(buffer(0)));
  EXPECT_EQ(buffer(1), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(buffer(2)));
}

}  // namespace
}  // namespace matrixfsdp
