#include <algorithm>

#include <matrixfsdp/nn/products.hpp>

#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace {

using linalg::Op;

// FLOPs of one piece: 4 ms at 125 GFLOP/s. A device gets whole products: there the host polls beside the kernel.
constexpr std::int64_t piece_flops = detail::on_host ? std::int64_t{1} << 29 : std::int64_t{1} << 62;
// Below this extent, packing the operands again for each piece would show.
constexpr std::int64_t least_extent = 256;

template <class T>
struct Product {
  Op op_a;
  Op op_b;
  T alpha;
  MatrixView<const T> a;
  MatrixView<const T> b;
  T beta;
  MatrixView<T> c;

  [[nodiscard]] std::int64_t inner() const { return op_a == Op::none ? a.cols : a.rows; }
  [[nodiscard]] std::int64_t flops() const { return 2 * c.rows * c.cols * inner(); }

  [[nodiscard]] Product rows(std::int64_t begin, std::int64_t count) const {
    Product part = *this;
    part.a = op_a == Op::none ? a.row_block(begin, count) : a.col_block(begin, count);
    part.c = c.row_block(begin, count);
    return part;
  }
  [[nodiscard]] Product cols(std::int64_t begin, std::int64_t count) const {
    Product part = *this;
    part.b = op_b == Op::none ? b.col_block(begin, count) : b.row_block(begin, count);
    part.c = c.col_block(begin, count);
    return part;
  }
  /// Terms of the sum: all but the first are added.
  [[nodiscard]] Product terms(std::int64_t begin, std::int64_t count) const {
    Product part = *this;
    part.a = op_a == Op::none ? a.col_block(begin, count) : a.row_block(begin, count);
    part.b = op_b == Op::none ? b.row_block(begin, count) : b.col_block(begin, count);
    if (begin > 0) part.beta = T{1};
    return part;
  }
};

/// Cuts the largest extent, in multiples of 64 (whole tiles of the BLAS), until a piece is small enough.
template <class T>
void in_pieces(const Product<T>& product, const Products& products) {
  const std::int64_t inner = product.inner();
  const std::int64_t largest = std::max({product.c.rows, product.c.cols, inner});
  const std::int64_t pieces = (product.flops() + piece_flops - 1) / piece_flops;
  const std::int64_t step = pieces > 1 ? std::max(least_extent, (largest / pieces + 63) / 64 * 64) : largest;
  if (step >= largest) {
    linalg::gemm<T>(product.op_a, product.op_b, product.alpha, product.a, product.b, product.beta, product.c);
    products.poll();
    return;
  }
  for (std::int64_t begin = 0; begin < largest; begin += step) {
    const std::int64_t count = std::min(step, largest - begin);
    if (largest == product.c.rows) {
      in_pieces(product.rows(begin, count), products);
    } else if (largest == product.c.cols) {
      in_pieces(product.cols(begin, count), products);
    } else {
      in_pieces(product.terms(begin, count), products);
    }
  }
}

}  // namespace

template <class T>
void Products::multiply(Op op_a, Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
                        MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c) {
  const Product<T> product{op_a, op_b, alpha, a, b, beta, c};
  (recomputing_ ? recompute_flops_ : flops_) += product.flops();
  in_pieces(product, *this);
}

template void Products::multiply<float>(Op, Op, float, MatrixView<const float>, MatrixView<const float>, float,
                                        MatrixView<float>);
template void Products::multiply<double>(Op, Op, double, MatrixView<const double>, MatrixView<const double>, double,
                                         MatrixView<double>);

}  // namespace matrixfsdp::nn
