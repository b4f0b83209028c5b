#include "orthogonalize/rounded_iteration.hpp"

#include <algorithm>
#include <utility>

#include "linalg/fill_symmetric.hpp"

namespace matrixfsdp::detail {
namespace {

using linalg::Op;

// z <- a I + b R + c R^2, computed in float32 from the lower triangles of R and R^2, and rounded once.
void rounded_polynomial(const Quintic& step, MatrixView<const bfloat16> r, MatrixView<const float> square,
                        MatrixView<bfloat16> z) {
  const auto a = static_cast<float>(step.a);
  const auto b = static_cast<float>(step.b);
  const auto c = static_cast<float>(step.c);
  linalg::detail::fill_symmetric<true>(
      "matrixfsdp::orthogonalize::rounded_polynomial", z, KOKKOS_LAMBDA(const std::int64_t i, const std::int64_t j) {
        const float sum = b * to_float(r(i, j)) + c * square(i, j);
        return to_bfloat16(i == j ? sum + a : sum);
      });
}

}  // namespace

std::int64_t iterate_bfloat16(MatrixView<const float> input, const Normalization& normalization,
                              const QuinticSequence& coefficients, int steps, NewtonSchulzWorkspace<float>& workspace,
                              MatrixView<float> output) {
  const bool tall = input.rows > input.cols;
  const std::int64_t small = std::min(input.rows, input.cols);
  const std::int64_t large = std::max(input.rows, input.cols);
  bfloat16* const words = workspace.rounded.data();
  MatrixView<bfloat16> x(words, input.rows, input.cols);
  MatrixView<bfloat16> other(words + small * large, input.rows, input.cols);
  const MatrixView<bfloat16> r(words + 2 * small * large, small, small);
  const MatrixView<bfloat16> z(r.data + small * small, small, small);
  const MatrixView<float> square(workspace.products.data(), small, small);
  linalg::Bfloat16Products& products = *workspace.bfloat16_products;
  normalize<float>(input, normalization, x);
  for (int step = 0; step < steps; ++step) {
    products.square_lower<bfloat16>(tall ? Op::transpose : Op::none, x, r);
    linalg::mirror<bfloat16>(r);
    products.square_lower<float>(Op::none, r, square);
    rounded_polynomial(coefficients.at(step), r, square, z);
    const MatrixView<bfloat16> left = tall ? x : z;
    const MatrixView<bfloat16> right = tall ? z : x;
    if (step + 1 == steps) {
      products.gemm(Op::none, Op::none, left, right, false, output);
    } else {
      products.gemm(Op::none, Op::none, left, right, other);
      std::swap(x, other);
    }
  }
  const std::int64_t one_step = linalg::bfloat16_square_flops(small, large) +
                                linalg::bfloat16_square_flops(small, small) + 2 * small * small * large;
  return steps * one_step;
}

}  // namespace matrixfsdp::detail
