#include <algorithm>

#include <matrixfsdp/nn/products.hpp>

#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace detail {

// FLOPs of one piece: 4 ms at 125 GFLOP/s. A device gets whole products: there the host polls beside the kernel.
inline constexpr std::int64_t piece_flops = on_host ? std::int64_t{1} << 29 : std::int64_t{1} << 62;

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Extent of the pieces of `extent`, a multiple of 64 (whole tiles of the BLAS) and not below `least`, so that no more
/// than piece_flops are in one where `flops` are in all.
inline std::int64_t piece_extent(std::int64_t extent, std::int64_t flops, std::int64_t least) {
  const std::int64_t pieces = std::max<std::int64_t>(1, ceil_div(flops, piece_flops));
  return std::min(extent, std::max(least, ceil_div(ceil_div(extent, pieces), 64) * 64));
}

}  // namespace detail

template <class T>
void Products::multiply(linalg::Op op_a, linalg::Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
                        MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c) {
  const bool plain_a = op_a == linalg::Op::none;
  const bool plain_b = op_b == linalg::Op::none;
  const std::int64_t inner = plain_a ? a.cols : a.rows;
  const std::int64_t flops = 2 * c.rows * c.cols * inner;
  (recomputing_ ? recompute_flops_ : flops_) += flops;

  // The larger extent of C first; what is still too large then is cut along the sum.
  const bool by_rows = c.rows >= c.cols;
  const std::int64_t extent = by_rows ? c.rows : c.cols;
  const std::int64_t step = std::max<std::int64_t>(1, detail::piece_extent(extent, flops, 256));
  const std::int64_t step_flops = 2 * step * (by_rows ? c.cols : c.rows) * inner;
  const std::int64_t inner_step = std::max<std::int64_t>(1, detail::piece_extent(inner, step_flops, 1024));
  for (std::int64_t begin = 0; begin < extent; begin += step) {
    const std::int64_t count = std::min(step, extent - begin);
    const auto a_part = !by_rows ? a : plain_a ? a.row_block(begin, count) : a.col_block(begin, count);
    const auto b_part = by_rows ? b : plain_b ? b.col_block(begin, count) : b.row_block(begin, count);
    const auto c_part = by_rows ? c.row_block(begin, count) : c.col_block(begin, count);
    for (std::int64_t k = 0; k == 0 || k < inner; k += inner_step) {
      const std::int64_t length = std::min(inner_step, inner - k);
      linalg::gemm<T>(op_a, op_b, alpha, plain_a ? a_part.col_block(k, length) : a_part.row_block(k, length),
                      plain_b ? b_part.row_block(k, length) : b_part.col_block(k, length), k == 0 ? beta : T{1},
                      c_part);
      poll();
    }
  }
}

template void Products::multiply<float>(linalg::Op, linalg::Op, float, MatrixView<const float>, MatrixView<const float>,
                                        float, MatrixView<float>);
template void Products::multiply<double>(linalg::Op, linalg::Op, double, MatrixView<const double>,
                                         MatrixView<const double>, double, MatrixView<double>);

}  // namespace matrixfsdp::nn
