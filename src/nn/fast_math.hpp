#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include <Kokkos_Core.hpp>

/// Elementary functions for kernels: for float a version without branches that compilers turn into vector code under
/// strict IEEE rules, for double the library's.
namespace matrixfsdp::nn::detail {

KOKKOS_INLINE_FUNCTION double exponential(double x) {
  return ::exp(x);
}

/// Below 1 ulp of error for normal results; subnormal ones, 0, infinity and NaN as they should be. Polynomial and split
/// of ln 2: Moshier, Cephes, expf. Selections are integer arithmetic: GCC vectorises no selection of floats whose
/// comparison could trap.
KOKKOS_INLINE_FUNCTION float exponential(float x) {
  constexpr std::int32_t limit = 0x42d00000;  // 104: exp(-104) rounds to 0, exp(104) to infinity
  std::int32_t bits = 0;
  memcpy(&bits, &x, sizeof(bits));
  const std::int32_t magnitude = bits & 0x7fffffff;
  const std::int32_t excess = limit - magnitude;
  const std::int32_t clamped_bits = (magnitude + (excess & (excess >> 31))) | (bits ^ magnitude);
  float clamped = 0;
  memcpy(&clamped, &clamped_bits, sizeof(clamped));

  // x = n ln 2 + r: adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const float shifted = clamped * 1.44269504088896341F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = p * (r * r) + r + 1.0F;

  // 2^n as a product of two factors, which covers overflow and subnormal results.
  std::int32_t shifted_bits = 0;
  memcpy(&shifted_bits, &shifted, sizeof(shifted_bits));
  const std::int32_t exponent = shifted_bits - 0x4b400000;
  const std::int32_t half = exponent >> 1;
  const std::int32_t first_bits = (half + 127) << 23;
  const std::int32_t second_bits = (exponent - half + 127) << 23;
  float first = 0;
  float second = 0;
  memcpy(&first, &first_bits, sizeof(first));
  memcpy(&second, &second_bits, sizeof(second));
  const float scaled = e * first * second;

  std::int32_t result_bits = 0;
  memcpy(&result_bits, &scaled, sizeof(result_bits));
  const std::int32_t is_nan = (0x7f800000 - magnitude) >> 31;
  result_bits = (result_bits & ~is_nan) | (bits & is_nan);
  float result = 0;
  memcpy(&result, &result_bits, sizeof(result));
  return result;
}

/// 1 / (1 + exp(-x)), with small relative error for every x. tanh(x) = 2 sigmoid(2 x) - 1.
template <class T>
KOKKOS_INLINE_FUNCTION T sigmoid(T x) {
  return T{1} / (T{1} + exponential(-x));
}

}  // namespace matrixfsdp::nn::detail
