#pragma once

#include <fmt/format.h>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::detail {

/// ContractError that names `what` unless values of `dtype` can travel.
inline void require_wire(DType dtype, const char* what) {
  if (dtype == DType::float32 || dtype == DType::bfloat16) return;
  throw ContractError(fmt::format("{} {}: expected float32 or bfloat16", what, name_of(dtype)));
}

}  // namespace matrixfsdp::detail
