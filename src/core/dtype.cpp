#include <fmt/format.h>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 4;
    case DType::float64:
      return 8;
    case DType::bfloat16:
      return 2;
  }
  throw ContractError(fmt::format("dtype {}: expected float32, float64 or bfloat16", static_cast<int>(dtype)));
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::bfloat16:
      return "bfloat16";
  }
  throw ContractError(fmt::format("dtype {}: expected float32, float64 or bfloat16", static_cast<int>(dtype)));
}

DType parse_dtype(std::string_view name) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw InputError(fmt::format("dtype '{}': expected float32, float64 or bfloat16", name));
}

}  // namespace matrixfsdp
