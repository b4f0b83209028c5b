#include <matrixfsdp/nn/linear.hpp>

#include "nn/norm_kernels.hpp"
#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace detail {

// The product is added to what the result already holds: BLAS would spend the same pass on setting it to zero.
template <class T>
void fill_with_bias(MatrixView<T> y, const T* bias) {
  for_rows(
      "matrixfsdp::nn::fill_with_bias", y.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        T* const out = y.data + r * y.stride;
        row.for_each(y.cols, [&](std::int64_t i) { out[i] = bias[i]; });
      });
}

template <class T>
void fill_with_residual(MatrixView<T> y, MatrixView<const T> residual, const T* bias) {
  for_rows(
      "matrixfsdp::nn::fill_with_residual", y.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        T* const out = y.data + r * y.stride;
        const T* const in = residual.data + r * residual.stride;
        if (bias == nullptr) {
          row.for_each(y.cols, [&](std::int64_t i) { out[i] = in[i]; });
        } else {
          row.for_each(y.cols, [&](std::int64_t i) { out[i] = in[i] + bias[i]; });
        }
      });
}

}  // namespace detail

template <class T>
void linear_forward(MatrixView<const std::type_identity_t<T>> x, MatrixView<const std::type_identity_t<T>> weight,
                    TensorView<T> bias, MatrixView<std::type_identity_t<T>> y, Products& products) {
  const bool biased = bias.extent(0) > 0;
  if (biased) detail::fill_with_bias<T>(y, bias.data());
  products.multiply_linear<T>(linalg::Op::none, linalg::Op::transpose, x, weight, biased, y);
}

template <class T>
void linear_residual_forward(MatrixView<const std::type_identity_t<T>> x,
                             MatrixView<const std::type_identity_t<T>> weight, TensorView<T> bias,
                             MatrixView<const std::type_identity_t<T>> residual, MatrixView<std::type_identity_t<T>> y,
                             Products& products) {
  detail::fill_with_residual<T>(y, residual, bias.extent(0) > 0 ? bias.data() : nullptr);
  products.multiply_linear<T>(linalg::Op::none, linalg::Op::transpose, x, weight, true, y);
}

template <class T>
void linear_input_gradient(MatrixView<const std::type_identity_t<T>> dy,
                           MatrixView<const std::type_identity_t<T>> weight, MatrixView<std::type_identity_t<T>> dx,
                           Products& products) {
  products.multiply_linear<T>(linalg::Op::none, linalg::Op::none, dy, weight, false, dx);
}

template <class T>
void linear_weight_gradient(MatrixView<const std::type_identity_t<T>> dy, MatrixView<const std::type_identity_t<T>> x,
                            TensorView<T> weight_gradient, TensorView<T> bias_gradient, Products& products) {
  if (weight_gradient.extent(0) > 0) {
    const MatrixView<T> dw(weight_gradient.data(), dy.cols, x.cols);
    products.multiply_linear<T>(linalg::Op::transpose, linalg::Op::none, dy, x, true, dw);
  }
  detail::add_bias_gradient<T>(dy, bias_gradient);
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                                     \
  template void linear_forward<T>(MatrixView<const T>, MatrixView<const T>, TensorView<T>, MatrixView<T>, Products&); \
  template void linear_residual_forward<T>(MatrixView<const T>, MatrixView<const T>, TensorView<T>,                   \
                                           MatrixView<const T>, MatrixView<T>, Products&);                            \
  template void linear_input_gradient<T>(MatrixView<const T>, MatrixView<const T>, MatrixView<T>, Products&);         \
  template void linear_weight_gradient<T>(MatrixView<const T>, MatrixView<const T>, TensorView<T>, TensorView<T>,     \
                                          Products&);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn
