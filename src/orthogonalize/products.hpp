#pragma once

#include <cstdint>

#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/shared_products.hpp"

namespace matrixfsdp::detail {

/// The products of the iteration, on the smaller side of X without a physical transpose: X X^T and Q X where X is wide,
/// X^T X and X Q where it is tall. In pieces where there are workers to share them. Adds up the FLOPs of the calls it
/// makes.
template <class T>
class Products {
 public:
  using Matrix = MatrixView<T>;

  Products(bool tall, linalg::Workers* workers) : tall_(tall), workers_(workers) {}

  /// r <- X X^T
  void gram(MatrixView<const T> x, MatrixView<T> r) {
    square_of(tall_ ? linalg::Op::transpose : linalg::Op::none, x, r);
    linalg::mirror<T>(r);
    flops_ += r.rows * (r.rows + 1) * (tall_ ? x.rows : x.cols);
  }

  /// The lower triangle of out <- that of R R^T, which is R^2 for a symmetric R
  void square(MatrixView<const T> r, MatrixView<T> out) {
    square_of(linalg::Op::none, r, out);
    flops_ += r.rows * (r.rows + 1) * r.rows;
  }

  /// out <- P Q of two small matrices that commute, as polynomials of one symmetric matrix do
  void multiply(MatrixView<const T> p, MatrixView<const T> q, MatrixView<T> out) {
    if (workers_ != nullptr) {
      linalg::detail::shared_symmetric_product<T>(*workers_, p, q, out);
    } else {
      linalg::symmetric_product<T>(p, q, out);
    }
    flops_ += linalg::symmetric_product_flops(out.rows);
  }

  /// out <- Q X
  void apply(MatrixView<const T> q, MatrixView<const T> x, MatrixView<T> out) {
    const MatrixView<const T> left = tall_ ? x : q;
    const MatrixView<const T> right = tall_ ? q : x;
    if (workers_ != nullptr) {
      linalg::detail::shared_gemm<T>(*workers_, left, right, out);
    } else {
      linalg::gemm<T>(linalg::Op::none, linalg::Op::none, T{1}, left, right, T{0}, out);
    }
    flops_ += 2 * out.rows * out.cols * left.cols;
  }

  [[nodiscard]] std::int64_t flops() const { return flops_; }

 private:
  void square_of(linalg::Op op, MatrixView<const T> a, MatrixView<T> lower) {
    if (workers_ != nullptr) {
      linalg::detail::shared_syrk_lower<T>(*workers_, op, a, lower);
    } else {
      linalg::syrk_lower<T>(op, T{1}, a, T{0}, lower);
    }
  }

  bool tall_;
  linalg::Workers* workers_;
  std::int64_t flops_ = 0;
};

}  // namespace matrixfsdp::detail
