#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace matrixfsdp {

/// Global extents of a parameter, slowest dimension first (row-major storage). Counts are 64-bit everywhere.
using Shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for an empty shape (a scalar). Throws ContractError for a negative extent or a product
/// beyond 2^62.
std::int64_t element_count(const Shape& shape);

/// "(768, 3072)".
std::string to_string(const Shape& shape);

/// Half-open range of elements [begin, end).
struct Interval {
  std::int64_t begin = 0;  ///< the first element
  std::int64_t end = 0;    ///< the one after the last

  /// Elements; negative where the end lies before the beginning.
  [[nodiscard]] constexpr std::int64_t size() const { return end - begin; }
  /// No elements.
  [[nodiscard]] constexpr bool empty() const { return end <= begin; }
  /// The same ends: empty intervals at different places differ.
  friend constexpr bool operator==(const Interval&, const Interval&) = default;
};

/// Common part of two intervals; {0, 0} where there is none (an interval that ends before it begins is empty).
constexpr Interval intersect(Interval a, Interval b) {
  const Interval common{a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
  return common.empty() ? Interval{} : common;
}

}  // namespace matrixfsdp
