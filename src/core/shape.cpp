#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp {

std::int64_t element_count(const Shape& shape) {
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw ContractError(fmt::format("shape {}: extents must not be negative", to_string(shape)));
    if (extent != 0 && count > limit / extent) {
      throw ContractError(fmt::format("shape {}: expected at most 2^62 elements", to_string(shape)));
    }
    count *= extent;
  }
  return count;
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

}  // namespace matrixfsdp
