#include "apps/ckpt/values.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace matrixfsdp::ckpt {

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zeros, and multiples of 2^-24 below the smallest normal number
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

}  // namespace matrixfsdp::ckpt
