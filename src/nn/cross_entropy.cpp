#include <algorithm>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/cross_entropy.hpp>

#include "nn/fast_math.hpp"
#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace detail {

/// Losses of the rows; the logits are overwritten. With `gradient` they become scale (softmax - one at the target).
template <class T>
void cross_entropy_rows(MatrixView<T> logits, const std::int32_t* target, bool gradient, T scale, double* losses) {
  for_rows(
      "matrixfsdp::nn::cross_entropy", logits.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        T* const values = logits.data + r * logits.stride;
        const T of_target = values[target[r]];
        const T largest = row.template maximum<T>(logits.cols, of_target, [&](std::int64_t i) { return values[i]; });
        const double sum = row.template sum<T>(logits.cols, [&](std::int64_t i) {
          const T e = exponential(values[i] - largest);
          values[i] = e;
          return e;
        });
        const auto factor = static_cast<T>(static_cast<double>(scale) / sum);
        if (gradient) row.for_each(logits.cols, [&](std::int64_t i) { values[i] *= factor; });
        row.once([&]() {
          losses[r] = ::log(sum) + (static_cast<double>(largest) - static_cast<double>(of_target));
          if (gradient) values[target[r]] -= scale;
        });
      });
}

}  // namespace detail

namespace {

/// after_block(first row, rows, what cross_entropy_rows made of their logits).
template <class T, class AfterBlock>
double blocks_of_rows(MatrixView<const T> x, MatrixView<const T> weight, const TensorView<std::int32_t>& targets,
                      bool gradient, T scale, const TensorView<T>& logits, const TensorView<double>& losses,
                      Products& products, const AfterBlock& after_block) {
  require(weight.rows > 0, "linear_cross_entropy: expected a vocabulary of at least one row");
  const std::int64_t block = static_cast<std::int64_t>(logits.extent(0)) / weight.rows;
  require(block > 0, "linear_cross_entropy: the scratch of the logits must hold one row");
  const Products::Held held_weight(products, weight);
  for (std::int64_t first = 0; first < x.rows; first += block) {
    const std::int64_t count = std::min(block, x.rows - first);
    const MatrixView<T> block_logits(logits.data(), count, weight.rows);
    products.multiply_linear<T>(linalg::Op::none, linalg::Op::transpose, x.row_block(first, count), weight, false,
                                block_logits);
    detail::cross_entropy_rows<T>(block_logits, targets.data() + first, gradient, scale, losses.data() + first);
    products.poll();
    after_block(first, count, block_logits);
  }
  double sum = 0;
  for (std::int64_t r = 0; r < x.rows; ++r)
    sum += losses.data()[r];
  return sum;
}

}  // namespace

template <class T>
double linear_cross_entropy(MatrixView<const std::type_identity_t<T>> x,
                            MatrixView<const std::type_identity_t<T>> weight, TensorView<std::int32_t> targets,
                            TensorView<T> logits, TensorView<double> losses, Products& products) {
  return blocks_of_rows<T>(x, weight, targets, false, T{0}, logits, losses, products,
                           [](std::int64_t, std::int64_t, MatrixView<const T>) {});
}

template <class T>
double linear_cross_entropy_backward(MatrixView<const std::type_identity_t<T>> x,
                                     MatrixView<const std::type_identity_t<T>> weight, TensorView<std::int32_t> targets,
                                     T scale, MatrixView<std::type_identity_t<T>> dx, TensorView<T> weight_gradient,
                                     TensorView<T> logits, TensorView<double> losses, Products& products) {
  return blocks_of_rows<T>(x, weight, targets, true, scale, logits, losses, products,
                           [&](std::int64_t first, std::int64_t count, MatrixView<const T> d_logits) {
                             const Products::Held held_gradient(products, d_logits);
                             products.multiply_linear<T>(linalg::Op::none, linalg::Op::none, d_logits, weight, false,
                                                         dx.row_block(first, count));
                             if (weight_gradient.extent(0) == 0) return;
                             products.multiply_linear<T>(
                                 linalg::Op::transpose, linalg::Op::none, d_logits, x.row_block(first, count), true,
                                 MatrixView<T>(weight_gradient.data(), weight.rows, weight.cols));
                           });
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                                      \
  template double linear_cross_entropy<T>(MatrixView<const T>, MatrixView<const T>, TensorView<std::int32_t>,          \
                                          TensorView<T>, TensorView<double>, Products&);                               \
  template double linear_cross_entropy_backward<T>(MatrixView<const T>, MatrixView<const T>, TensorView<std::int32_t>, \
                                                   T, MatrixView<T>, TensorView<T>, TensorView<T>, TensorView<double>, \
                                                   Products&);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn
