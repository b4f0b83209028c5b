#pragma once

#include <string_view>

namespace matrixfsdp {

/// "0.1.0": of this library.
std::string_view version();

}  // namespace matrixfsdp
