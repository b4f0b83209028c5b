#include <matrixfsdp/nn/activation.hpp>

#include "nn/fast_math.hpp"
#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {

template <class T>
void swiglu_forward(MatrixView<const std::type_identity_t<T>> gate_up, MatrixView<std::type_identity_t<T>> y) {
  detail::for_rows(
      "matrixfsdp::nn::swiglu", y.rows, KOKKOS_LAMBDA(const detail::Row& row, const std::int64_t r) {
        const T* const gate = gate_up.data + r * gate_up.stride;
        const T* const up = gate + y.cols;
        T* const out = y.data + r * y.stride;
        row.for_each(y.cols, [&](std::int64_t i) { out[i] = gate[i] * detail::sigmoid(gate[i]) * up[i]; });
      });
}

template <class T>
void swiglu_backward(MatrixView<std::type_identity_t<T>> gate_up, MatrixView<std::type_identity_t<T>> dy) {
  detail::for_rows(
      "matrixfsdp::nn::swiglu_backward", dy.rows, KOKKOS_LAMBDA(const detail::Row& row, const std::int64_t r) {
        T* const gate = gate_up.data + r * gate_up.stride;
        T* const up = gate + dy.cols;
        T* const outer = dy.data + r * dy.stride;
        row.for_each(dy.cols, [&](std::int64_t i) {
          const T g = gate[i];
          const T u = up[i];
          const T d = outer[i];
          const T s = detail::sigmoid(g);
          const T silu = g * s;
          gate[i] = d * u * (s + silu * (T{1} - s));
          up[i] = d * silu;
          outer[i] = silu * u;
        });
      });
}

template void swiglu_forward<float>(MatrixView<const float>, MatrixView<float>);
template void swiglu_forward<double>(MatrixView<const double>, MatrixView<double>);
template void swiglu_backward<float>(MatrixView<float>, MatrixView<float>);
template void swiglu_backward<double>(MatrixView<double>, MatrixView<double>);

}  // namespace matrixfsdp::nn
