#pragma once

#include <cstdint>

#include <matrixfsdp/linalg/blas.hpp>

namespace matrixfsdp::detail {

/// The products of the iteration, on the smaller side of X without a physical transpose: X X^T and Q X where X is wide,
/// X^T X and X Q where it is tall. Adds up the FLOPs of the calls it makes.
template <class T>
class Products {
 public:
  explicit Products(bool tall) : tall_(tall) {}

  /// r <- X X^T
  void gram(MatrixView<const T> x, MatrixView<T> r) {
    linalg::syrk<T>(tall_ ? linalg::Op::transpose : linalg::Op::none, T{1}, x, T{0}, r);
    flops_ += r.rows * (r.rows + 1) * (tall_ ? x.rows : x.cols);
  }

  /// The lower triangle of out <- that of R R^T, which is R^2 for a symmetric R
  void square(MatrixView<const T> r, MatrixView<T> out) {
    linalg::syrk_lower<T>(linalg::Op::none, T{1}, r, T{0}, out);
    flops_ += r.rows * (r.rows + 1) * r.rows;
  }

  /// out <- P Q of two small matrices that commute, as polynomials of one symmetric matrix do
  void multiply(MatrixView<const T> p, MatrixView<const T> q, MatrixView<T> out) {
    linalg::symmetric_product<T>(p, q, out);
    flops_ += linalg::symmetric_product_flops(out.rows);
  }

  /// out <- Q X
  void apply(MatrixView<const T> q, MatrixView<const T> x, MatrixView<T> out) {
    const MatrixView<const T> left = tall_ ? x : q;
    linalg::gemm<T>(linalg::Op::none, linalg::Op::none, T{1}, left, tall_ ? q : x, T{0}, out);
    flops_ += 2 * out.rows * out.cols * left.cols;
  }

  [[nodiscard]] std::int64_t flops() const { return flops_; }

 private:
  bool tall_;
  std::int64_t flops_ = 0;
};

}  // namespace matrixfsdp::detail
