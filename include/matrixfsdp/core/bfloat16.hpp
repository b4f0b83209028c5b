#pragma once

#include <cstdint>

/// Kernels convert too, and this module knows no Kokkos.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define MATRIXFSDP_HOST_DEVICE __host__ __device__
#else
#define MATRIXFSDP_HOST_DEVICE
#endif

namespace matrixfsdp {

/// Brain floating point: the upper 16 bits of an IEEE 754 float32. Storage only; arithmetic is done in float32.
struct bfloat16 {
  std::uint16_t bits = 0;  ///< sign, 8 bits of exponent, 7 of mantissa, from the highest bit on

  /// Equal bits: a NaN equals itself, and zeros of different sign differ.
  friend constexpr bool operator==(bfloat16, bfloat16) = default;
};

/// Rounds to nearest, ties to even. NaN stays NaN (made quiet), infinities and signed zeros are kept. The one place
/// where the library rounds to bfloat16.
MATRIXFSDP_HOST_DEVICE constexpr bfloat16 to_bfloat16(float value) {
  const auto word = __builtin_bit_cast(std::uint32_t, value);
  if ((word & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((word >> 16) | 0x0040U)};
  const std::uint32_t rounding = 0x7fffU + ((word >> 16) & 1U);
  return {static_cast<std::uint16_t>((word + rounding) >> 16)};
}

/// Exact.
MATRIXFSDP_HOST_DEVICE constexpr float to_float(bfloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

}  // namespace matrixfsdp

#undef MATRIXFSDP_HOST_DEVICE
