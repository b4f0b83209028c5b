#pragma once

#include <cstdint>

namespace matrixfsdp::linalg::detail {

/// A square on the diagonal of a symmetric product is one gemm up to this extent. Smaller ones save more FLOPs, but
/// leave gemm less to do in each (measured from 64 to 256 at extents of 256 to 2048: 64 to 96 is best).
constexpr std::int64_t smallest_diagonal = 96;

struct TriangleBlock {
  std::int64_t row;
  std::int64_t col;
  std::int64_t rows;
  std::int64_t cols;
};

/// body(block) for blocks that together cover the lower triangle of the square of `extent` rows at (first, first): its
/// lower left quarter is one, the two squares on the diagonal are cut again.
template <class Body>
void for_each_triangle_block(std::int64_t first, std::int64_t extent, const Body& body) {
  if (extent <= smallest_diagonal) {
    body(TriangleBlock{first, first, extent, extent});
    return;
  }
  const std::int64_t upper = extent / 2;
  const std::int64_t lower = extent - upper;
  for_each_triangle_block(first, upper, body);
  body(TriangleBlock{first + upper, first, lower, upper});
  for_each_triangle_block(first + upper, lower, body);
}

}  // namespace matrixfsdp::linalg::detail
