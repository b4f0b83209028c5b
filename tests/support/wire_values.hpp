#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/comm_tables.hpp"
#include "support/oracle/rounding.hpp"

/// Values that may be rounded on their way, and what becomes of them, from the definition of the rounding.
namespace matrixfsdp::testing {

inline float rounded(float value) {
  return static_cast<float>(oracle::round_to_bfloat16(value));
}

/// value_at, with one element of eleven that is NaN, infinite, subnormal, a tie, or beyond what bfloat16 holds.
inline float wire_value_at(std::uint64_t stream, std::int64_t element) {
  constexpr std::array odd{std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           0x1.8p-130F,
                           -0x1.0101p-127F,
                           std::numeric_limits<float>::denorm_min(),
                           -0.0F,
                           1.0F + 0x1p-8F,
                           1.0F + 0x3p-8F,
                           std::numeric_limits<float>::max(),
                           -std::numeric_limits<float>::max()};
  if (element % 11 != 5) return value_at(stream, element);
  return odd.at((static_cast<std::uint64_t>(element / 11) + stream) % odd.size());
}

/// Equal bits; any NaN equals any other.
inline bool same(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// The left fold by micro-batch index, in float32, of the gradients wire_value_at, each rounded once.
inline float folded_rounded(std::int64_t element, std::int64_t micro_batches) {
  float sum = rounded(wire_value_at(0, element));
  for (std::int64_t i = 1; i < micro_batches; ++i)
    sum += rounded(wire_value_at(static_cast<std::uint64_t>(i), element));
  return sum;
}

}  // namespace matrixfsdp::testing
