#pragma once

#include <cstddef>
#include <string_view>

namespace matrixfsdp {

/// Element types that are stored, sent or computed with.
enum class DType {
  float32,   ///< IEEE 754 binary32
  float64,   ///< IEEE 754 binary64
  bfloat16,  ///< the upper half of a float32 (struct bfloat16)
};

/// Bytes of one element. Throws ContractError for a value outside of the enumeration.
std::size_t size_of(DType dtype);

/// "float32", "float64" or "bfloat16": the names used by options, checkpoints and JSON. Throws ContractError as
/// size_of.
std::string_view name_of(DType dtype);

/// Inverse of name_of. Throws InputError for any other name.
DType parse_dtype(std::string_view name);

}  // namespace matrixfsdp
