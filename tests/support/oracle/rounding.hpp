#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace oracle {

/// The nearest number with 8 bits of mantissa and float32's exponents, ties to even, from the definition; infinity from
/// half a unit above the largest on.
inline double round_to_bfloat16(double value) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -126) - 7);
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::fabs(rounded) >= 0x1p128) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return std::copysign(rounded, value);
}

}  // namespace oracle
