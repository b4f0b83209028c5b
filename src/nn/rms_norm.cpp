#include <matrixfsdp/nn/rms_norm.hpp>

#include "nn/norm_kernels.hpp"

namespace matrixfsdp::nn {

template <class T>
void rms_norm_forward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight,
                      MatrixView<std::type_identity_t<T>> y, TensorView<T> inverse_rms) {
  detail::norm_statistics<false, T>("matrixfsdp::nn::rms_norm_statistics", x, {nullptr, inverse_rms.data()});
  rms_norm_apply<T>(x, weight, inverse_rms, y);
}

template <class T>
void rms_norm_apply(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> inverse_rms,
                    MatrixView<std::type_identity_t<T>> y) {
  detail::norm_apply<false, T>("matrixfsdp::nn::rms_norm", x, weight.data(), nullptr, {nullptr, inverse_rms.data()}, y);
}

template <class T>
void rms_norm_backward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> inverse_rms,
                       MatrixView<const std::type_identity_t<T>> dy, MatrixView<const std::type_identity_t<T>> residual,
                       MatrixView<std::type_identity_t<T>> dx, TensorView<T> weight_gradient) {
  const detail::NormStatistics<T> statistics{nullptr, inverse_rms.data()};
  detail::norm_weight_gradient<false, T>("matrixfsdp::nn::rms_norm_weight_gradient", x, statistics, dy,
                                         weight_gradient);
  detail::norm_input_gradient<false, T>("matrixfsdp::nn::rms_norm_input_gradient", x, weight.data(), statistics, dy,
                                        residual, dx);
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                            \
  template void rms_norm_forward<T>(MatrixView<const T>, TensorView<T>, MatrixView<T>, TensorView<T>);       \
  template void rms_norm_apply<T>(MatrixView<const T>, TensorView<T>, TensorView<T>, MatrixView<T>);         \
  template void rms_norm_backward<T>(MatrixView<const T>, TensorView<T>, TensorView<T>, MatrixView<const T>, \
                                     MatrixView<const T>, MatrixView<T>, TensorView<T>);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn
