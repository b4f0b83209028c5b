#include <matrixfsdp/nn/activation.hpp>

#include "nn/fast_math.hpp"
#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace detail {

template <class T>
inline constexpr T gelu_factor = static_cast<T>(1.5957691216057308);  // 2 sqrt(2 / pi)
template <class T>
inline constexpr T gelu_cubic = static_cast<T>(0.044715);

}  // namespace detail

template <class T>
void gelu_forward(MatrixView<const std::type_identity_t<T>> u, MatrixView<std::type_identity_t<T>> y) {
  detail::for_rows(
      "matrixfsdp::nn::gelu", u.rows, KOKKOS_LAMBDA(const detail::Row& row, const std::int64_t r) {
        const T* const in = u.data + r * u.stride;
        T* const out = y.data + r * y.stride;
        constexpr T factor = detail::gelu_factor<T>;
        constexpr T cubic = detail::gelu_cubic<T>;
        row.for_each(u.cols, [&](std::int64_t i) {
          const T x = in[i];
          out[i] = x * detail::sigmoid(factor * (x + cubic * x * x * x));
        });
      });
}

// With s = sigmoid(z): d(x s) / dx = s + x s (1 - s) dz/dx.
template <class T>
void gelu_backward(MatrixView<std::type_identity_t<T>> u, MatrixView<std::type_identity_t<T>> dy) {
  detail::for_rows(
      "matrixfsdp::nn::gelu_backward", u.rows, KOKKOS_LAMBDA(const detail::Row& row, const std::int64_t r) {
        T* const inner = u.data + r * u.stride;
        T* const outer = dy.data + r * dy.stride;
        constexpr T factor = detail::gelu_factor<T>;
        constexpr T cubic = detail::gelu_cubic<T>;
        row.for_each(u.cols, [&](std::int64_t i) {
          const T x = inner[i];
          const T s = detail::sigmoid(factor * (x + cubic * x * x * x));
          const T slope = factor * (T{1} + T{3} * cubic * x * x);
          inner[i] = outer[i] * (s + x * s * (T{1} - s) * slope);
          outer[i] = x * s;
        });
      });
}

template void gelu_forward<float>(MatrixView<const float>, MatrixView<float>);
template void gelu_forward<double>(MatrixView<const double>, MatrixView<double>);
template void gelu_backward<float>(MatrixView<float>, MatrixView<float>);
template void gelu_backward<double>(MatrixView<double>, MatrixView<double>);

}  // namespace matrixfsdp::nn
