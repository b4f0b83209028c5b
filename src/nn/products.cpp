#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/products.hpp>

#include "nn/rounded_operands.hpp"
#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace {

using linalg::Op;

// FLOPs of one piece: 4 ms at 125 GFLOP/s. A device gets whole products: there the host polls beside the kernel.
constexpr std::int64_t piece_flops = detail::on_host ? std::int64_t{1} << 29 : std::int64_t{1} << 62;
// bfloat16 is at least twice as fast.
constexpr std::int64_t rounded_piece_flops = detail::on_host ? std::int64_t{1} << 30 : std::int64_t{1} << 62;
// Below this extent, packing the operands again for each piece would show.
constexpr std::int64_t least_extent = 256;

/// Of operands of E with a result of T.
template <class E, class T>
struct Product {
  Op op_a;
  Op op_b;
  T alpha;
  MatrixView<const E> a;
  MatrixView<const E> b;
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
template <class E, class T, class Multiply>
void in_pieces(const Product<E, T>& product, std::int64_t most_flops, const Multiply& multiply) {
  const std::int64_t inner = product.inner();
  const std::int64_t largest = std::max({product.c.rows, product.c.cols, inner});
  const std::int64_t pieces = (product.flops() + most_flops - 1) / most_flops;
  const std::int64_t step = pieces > 1 ? std::max(least_extent, (largest / pieces + 63) / 64 * 64) : largest;
  if (step >= largest) {
    multiply(product);
    return;
  }
  for (std::int64_t begin = 0; begin < largest; begin += step) {
    const std::int64_t count = std::min(step, largest - begin);
    if (largest == product.c.rows) {
      in_pieces(product.rows(begin, count), most_flops, multiply);
    } else if (largest == product.c.cols) {
      in_pieces(product.cols(begin, count), most_flops, multiply);
    } else {
      in_pieces(product.terms(begin, count), most_flops, multiply);
    }
  }
}

}  // namespace

template <class T>
void Products::multiply(Op op_a, Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
                        MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c) {
  const Product<T, T> product{op_a, op_b, alpha, a, b, beta, c};
  (recomputing_ ? recompute_flops_ : flops_) += product.flops();
  in_pieces(product, piece_flops, [this](const Product<T, T>& p) {
    linalg::gemm<T>(p.op_a, p.op_b, p.alpha, p.a, p.b, p.beta, p.c);
    poll();
  });
}

template <class T>
void Products::multiply_linear(Op op_a, Op op_b, MatrixView<const std::type_identity_t<T>> a,
                               MatrixView<const std::type_identity_t<T>> b, bool add,
                               MatrixView<std::type_identity_t<T>> c) {
  if constexpr (std::is_same_v<T, float>) {
    if (rounded_) {
      using Role = detail::RoundedOperands::Role;
      const Product<bfloat16, float> product{
          op_a, op_b, 1, rounded_->rounded(Role::a, a), rounded_->rounded(Role::b, b), add ? 1.0F : 0.0F, c};
      (recomputing_ ? recompute_flops_ : flops_) += product.flops();
      in_pieces(product, rounded_piece_flops, [this](const Product<bfloat16, float>& p) {
        rounded_->products.gemm(p.op_a, p.op_b, p.a, p.b, p.beta != 0, p.c);
        poll();
      });
      return;
    }
  }
  multiply<T>(op_a, op_b, T{1}, a, b, add ? T{1} : T{0}, c);
}

Products::Products(DType linear) {
  if (linear == DType::bfloat16) {
    rounded_ = std::make_unique<detail::RoundedOperands>();
  } else if (linear != DType::float32) {
    throw InputError(fmt::format("products in {}: expected float32 or bfloat16", name_of(linear)));
  }
}

Products::~Products() = default;

void Products::reserve(const std::array<std::int64_t, 4>& elements) {
  if (rounded_) rounded_->reserve(elements);
}

std::int64_t Products::bytes() const {
  return rounded_ ? rounded_->bytes() : 0;
}

template <class T>
Products::Held::Held(Products& products, MatrixView<const T> operand) : products_(products), rounded_(false) {
  if constexpr (std::is_same_v<T, float>) {
    if (!products_.rounded_) return;
    products_.rounded_->hold(operand);
    rounded_ = true;
  }
}

Products::Held::~Held() {
  if (rounded_) products_.rounded_->release();
}

template Products::Held::Held(Products&, MatrixView<const float>);
template Products::Held::Held(Products&, MatrixView<const double>);
template void Products::multiply_linear<float>(Op, Op, MatrixView<const float>, MatrixView<const float>, bool,
                                               MatrixView<float>);
template void Products::multiply_linear<double>(Op, Op, MatrixView<const double>, MatrixView<const double>, bool,
                                                MatrixView<double>);

template void Products::multiply<float>(Op, Op, float, MatrixView<const float>, MatrixView<const float>, float,
                                        MatrixView<float>);
template void Products::multiply<double>(Op, Op, double, MatrixView<const double>, MatrixView<const double>, double,
                                         MatrixView<double>);

}  // namespace matrixfsdp::nn
