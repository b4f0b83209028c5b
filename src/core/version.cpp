#include <matrixfsdp/core/version.hpp>

namespace matrixfsdp {

std::string_view version() {
  return MATRIXFSDP_VERSION;
}

}  // namespace matrixfsdp
