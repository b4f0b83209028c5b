#include <fmt/format.h>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/backend.hpp"
#include "linalg/column_major.hpp"
#include "linalg/fill_symmetric.hpp"
#include "linalg/triangle_blocks.hpp"

namespace matrixfsdp::linalg {

template <class T>
void mirror(MatrixView<T> c) {
  if (c.rows != c.cols) throw ContractError(fmt::format("mirror: C {}x{}: expected a square", c.rows, c.cols));
  detail::fill_symmetric<false>(
      "matrixfsdp::linalg::mirror", c, KOKKOS_LAMBDA(const std::int64_t i, const std::int64_t j) { return c(i, j); });
}

template <class T>
void symmetric_product(MatrixView<const std::type_identity_t<T>> a, MatrixView<const std::type_identity_t<T>> b,
                       MatrixView<std::type_identity_t<T>> c) {
  for (const MatrixView<const T>& matrix : {a, b, MatrixView<const T>(c)}) {
    if (matrix.rows == c.rows && matrix.cols == c.rows) continue;
    throw ContractError(fmt::format("symmetric_product: A {}x{}, B {}x{}, C {}x{}: expected squares of one extent",
                                    a.rows, a.cols, b.rows, b.cols, c.rows, c.cols));
  }
  if (c.rows == 0) return;
  detail::for_each_triangle_block(0, c.rows, [&](const detail::TriangleBlock& block) {
    detail::start(detail::column_gemm<T>("symmetric_product", Op::none, Op::none, T{1},
                                         a.row_block(block.row, block.rows), b.col_block(block.col, block.cols), T{0},
                                         c.row_block(block.row, block.rows).col_block(block.col, block.cols)));
  });
  detail::finish();
  mirror<T>(c);
}

std::int64_t symmetric_product_flops(std::int64_t extent) {
  std::int64_t entries = 0;
  if (extent > 0) {
    detail::for_each_triangle_block(0, extent,
                                    [&](const detail::TriangleBlock& block) { entries += block.rows * block.cols; });
  }
  return 2 * extent * entries;
}

template void mirror<float>(MatrixView<float>);
template void mirror<double>(MatrixView<double>);
template void mirror<bfloat16>(MatrixView<bfloat16>);
template void symmetric_product<float>(MatrixView<const float>, MatrixView<const float>, MatrixView<float>);
template void symmetric_product<double>(MatrixView<const double>, MatrixView<const double>, MatrixView<double>);

}  // namespace matrixfsdp::linalg
