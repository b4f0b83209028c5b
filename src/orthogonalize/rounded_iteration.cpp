#include "orthogonalize/rounded_iteration.hpp"

#include <algorithm>
#include <utility>

#include "linalg/batch.hpp"
#include "linalg/fill_symmetric.hpp"

namespace matrixfsdp::detail {
namespace {

using linalg::Op;
using linalg::detail::MatrixBatch;

struct RoundedPolynomialEntry {
  MatrixView<const bfloat16> r;
  MatrixView<const float> square;
  float a;
  float b;
  float c;

  KOKKOS_INLINE_FUNCTION bfloat16 operator()(std::int64_t i, std::int64_t j) const {
    const float sum = b * to_float(r(i, j)) + c * square(i, j);
    return to_bfloat16(i == j ? sum + a : sum);
  }
};

struct RoundedPolynomialEntries {
  MatrixBatch<const bfloat16> r;
  MatrixBatch<const float> square;
  float a;
  float b;
  float c;

  KOKKOS_INLINE_FUNCTION RoundedPolynomialEntry operator[](std::int64_t matrix) const {
    return {r[matrix], square[matrix], a, b, c};
  }
};

// z <- a I + b R + c R^2, computed in float32 from the lower triangles of R and R^2, and rounded once.
void rounded_polynomial(const Quintic& step, const MatrixView<bfloat16>& r, const MatrixView<float>& square,
                        const MatrixView<bfloat16>& z) {
  linalg::detail::fill_symmetric<true>("matrixfsdp::orthogonalize::rounded_polynomial", z,
                                       RoundedPolynomialEntry{r, square, static_cast<float>(step.a),
                                                              static_cast<float>(step.b), static_cast<float>(step.c)});
}
void rounded_polynomial(const Quintic& step, const MatrixBatch<bfloat16>& r, const MatrixBatch<float>& square,
                        const MatrixBatch<bfloat16>& z) {
  linalg::detail::fill_symmetric_batch(
      "matrixfsdp::orthogonalize::rounded_polynomial", z,
      RoundedPolynomialEntries{r, square, static_cast<float>(step.a), static_cast<float>(step.b),
                               static_cast<float>(step.c)});
}

/// Of one matrix. As Products (products.hpp) has them.
struct RoundedProducts {
  template <class T>
  using Matrix = MatrixView<T>;

  linalg::Bfloat16Products& library;
  bool tall;

  void gram(const MatrixView<bfloat16>& x, const MatrixView<bfloat16>& r) const {
    library.square_lower<bfloat16>(tall ? Op::transpose : Op::none, x, r);
    linalg::mirror<bfloat16>(r);
  }
  void square(const MatrixView<bfloat16>& r, const MatrixView<float>& out) const {
    library.square_lower<float>(Op::none, r, out);
  }
  void apply(const MatrixView<bfloat16>& z, const MatrixView<bfloat16>& x, const MatrixView<bfloat16>& out) const {
    library.gemm(Op::none, Op::none, tall ? x : z, tall ? z : x, out);
  }
  void apply(const MatrixView<bfloat16>& z, const MatrixView<bfloat16>& x, const MatrixView<float>& out) const {
    library.gemm(Op::none, Op::none, tall ? x : z, tall ? z : x, false, out);
  }
};

/// Of a batch.
struct RoundedBatchProducts {
  template <class T>
  using Matrix = MatrixBatch<T>;

  linalg::Bfloat16Products& library;
  bool tall;

  void gram(const MatrixBatch<bfloat16>& x, const MatrixBatch<bfloat16>& r) const {
    linalg::detail::batched_gemm<bfloat16>(library, tall ? Op::transpose : Op::none, tall ? Op::none : Op::transpose, x,
                                           x, r);
    linalg::detail::mirror<bfloat16>(r);
  }
  void square(const MatrixBatch<bfloat16>& r, const MatrixBatch<float>& out) const {
    linalg::detail::batched_gemm<float>(library, Op::none, Op::none, r, r, out);
  }
  template <class T>
  void apply(const MatrixBatch<bfloat16>& z, const MatrixBatch<bfloat16>& x, const MatrixBatch<T>& out) const {
    linalg::detail::batched_gemm<T>(library, Op::none, Op::none, tall ? x : z, tall ? z : x, out);
  }
};

template <class Products>
struct RoundedIteration {
  template <class T>
  using Matrix = typename Products::template Matrix<T>;

  Products products;
  Matrix<bfloat16> x;
  Matrix<bfloat16> other;
  Matrix<bfloat16> r;
  Matrix<bfloat16> z;
  Matrix<float> square;
  Matrix<float> output;
};

template <class Products>
void iterate(RoundedIteration<Products>& it, const QuinticSequence& coefficients, int steps) {
  for (int step = 0; step < steps; ++step) {
    it.products.gram(it.x, it.r);
    it.products.square(it.r, it.square);
    rounded_polynomial(coefficients.at(step), it.r, it.square, it.z);
    if (step + 1 == steps) {
      it.products.apply(it.z, it.x, it.output);
    } else {
      it.products.apply(it.z, it.x, it.other);
      std::swap(it.x, it.other);
    }
  }
}

}  // namespace

std::int64_t iterate_bfloat16(MatrixView<const float> input, const Normalization& normalization,
                              const QuinticSequence& coefficients, int steps, NewtonSchulzWorkspace<float>& workspace,
                              MatrixView<float> output) {
  const std::int64_t small = std::min(input.rows, input.cols);
  const std::int64_t large = std::max(input.rows, input.cols);
  bfloat16* const words = workspace.rounded.data();
  bfloat16* const small_words = words + 2 * small * large;
  RoundedIteration<RoundedProducts> it{{*workspace.bfloat16_products, input.rows > input.cols},
                                       {words, input.rows, input.cols},
                                       {words + small * large, input.rows, input.cols},
                                       {small_words, small, small},
                                       {small_words + small * small, small, small},
                                       {workspace.products.data(), small, small},
                                       output};
  normalize<float>(input, normalization, it.x);
  iterate(it, coefficients, steps);
  const std::int64_t one_step = linalg::bfloat16_square_flops(small, large) +
                                linalg::bfloat16_square_flops(small, small) + 2 * small * small * large;
  return steps * one_step;
}

std::int64_t iterate_bfloat16_batch(const MatrixView<const float>* inputs, const Normalization* normalizations,
                                    const QuinticSequence& coefficients, int steps,
                                    NewtonSchulzWorkspace<float>& workspace, const MatrixBatch<float>& output) {
  const std::int64_t slots = output.count;
  const std::int64_t small = std::min(output.rows, output.cols);
  const std::int64_t large = std::max(output.rows, output.cols);
  bfloat16* const words = workspace.rounded.data();
  bfloat16* const small_words = words + 2 * slots * small * large;
  RoundedIteration<RoundedBatchProducts> it{{*workspace.bfloat16_products, output.rows > output.cols},
                                            {words, slots, output.rows, output.cols},
                                            {words + slots * small * large, slots, output.rows, output.cols},
                                            {small_words, slots, small, small},
                                            {small_words + slots * small * small, slots, small, small},
                                            {workspace.products.data(), slots, small, small},
                                            output};
  normalize_batch<float>(inputs, normalizations, it.x);
  iterate(it, coefficients, steps);
  return steps * (4 * small * small * large + 2 * small * small * small);
}

}  // namespace matrixfsdp::detail
