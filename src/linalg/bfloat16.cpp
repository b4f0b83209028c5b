#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>

#include "linalg/triangle_blocks.hpp"

namespace matrixfsdp::linalg {

void require_bfloat16(std::string_view user) {
  const std::string obstacle = bfloat16_obstacle();
  if (!obstacle.empty()) throw InputError(fmt::format("{}: {}", user, obstacle));
}

template <class C>
void Bfloat16Products::square_lower(Op op, MatrixView<const bfloat16> a, MatrixView<C> c) {
  const std::int64_t rows = op == Op::none ? a.rows : a.cols;
  if (c.rows != rows || c.cols != rows) {
    throw ContractError(fmt::format("square_lower: op(A) with {} rows does not fit C {}x{}", rows, c.rows, c.cols));
  }
  if (rows == 0) return;
  const Op other = op == Op::none ? Op::transpose : Op::none;
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    return op == Op::none ? a.row_block(begin, count) : a.col_block(begin, count);
  };
  detail::for_each_triangle_block(0, rows, [&](const detail::TriangleBlock& block) {
    const MatrixView<C> out = c.row_block(block.row, block.rows).col_block(block.col, block.cols);
    if constexpr (std::is_same_v<C, float>) {
      gemm(op, other, part(block.row, block.rows), part(block.col, block.cols), false, out);
    } else {
      gemm(op, other, part(block.row, block.rows), part(block.col, block.cols), out);
    }
  });
}

std::int64_t bfloat16_square_flops(std::int64_t m, std::int64_t k) {
  return m <= 0 ? 0 : symmetric_product_flops(m) / m * k;
}

template void Bfloat16Products::square_lower<float>(Op, MatrixView<const bfloat16>, MatrixView<float>);
template void Bfloat16Products::square_lower<bfloat16>(Op, MatrixView<const bfloat16>, MatrixView<bfloat16>);

}  // namespace matrixfsdp::linalg
