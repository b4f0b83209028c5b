#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp::ckpt {

/// Element `index` of stored values, exact in double.
inline double value_at(DType dtype, std::span<const std::byte> values, std::size_t index) {
  const std::byte* const at = values.data() + index * size_of(dtype);
  if (dtype == DType::float64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (dtype == DType::float32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  bfloat16 value;
  std::memcpy(&value, at, sizeof value);
  return to_float(value);
}

/// float32 of an IEEE 754 half (16 bits), exact.
float half_to_float(std::uint16_t bits);

}  // namespace matrixfsdp::ckpt
