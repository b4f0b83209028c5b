#include <matrixfsdp/nn/layer_norm.hpp>

#include "nn/norm_kernels.hpp"

namespace matrixfsdp::nn {

template <class T>
void layer_norm_forward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> bias,
                        MatrixView<std::type_identity_t<T>> y, TensorView<T> mean, TensorView<T> inverse_deviation) {
  detail::norm_statistics<true, T>("matrixfsdp::nn::layer_norm_statistics", x, {mean.data(), inverse_deviation.data()});
  layer_norm_apply<T>(x, weight, bias, mean, inverse_deviation, y);
}

template <class T>
void layer_norm_apply(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> bias,
                      TensorView<T> mean, TensorView<T> inverse_deviation, MatrixView<std::type_identity_t<T>> y) {
  detail::norm_apply<true, T>("matrixfsdp::nn::layer_norm", x, weight.data(), bias.data(),
                              {mean.data(), inverse_deviation.data()}, y);
}

template <class T>
void layer_norm_backward(MatrixView<const std::type_identity_t<T>> x, TensorView<T> weight, TensorView<T> mean,
                         TensorView<T> inverse_deviation, MatrixView<const std::type_identity_t<T>> dy,
                         MatrixView<const std::type_identity_t<T>> residual, MatrixView<std::type_identity_t<T>> dx,
                         TensorView<T> weight_gradient, TensorView<T> bias_gradient) {
  const detail::NormStatistics<T> statistics{mean.data(), inverse_deviation.data()};
  detail::norm_weight_gradient<true, T>("matrixfsdp::nn::layer_norm_weight_gradient", x, statistics, dy,
                                        weight_gradient);
  detail::add_bias_gradient<T>(dy, bias_gradient);
  detail::norm_input_gradient<true, T>("matrixfsdp::nn::layer_norm_input_gradient", x, weight.data(), statistics, dy,
                                       residual, dx);
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                                      \
  template void layer_norm_forward<T>(MatrixView<const T>, TensorView<T>, TensorView<T>, MatrixView<T>, TensorView<T>, \
                                      TensorView<T>);                                                                  \
  template void layer_norm_apply<T>(MatrixView<const T>, TensorView<T>, TensorView<T>, TensorView<T>, TensorView<T>,   \
                                    MatrixView<T>);                                                                    \
  template void layer_norm_backward<T>(MatrixView<const T>, TensorView<T>, TensorView<T>, TensorView<T>,               \
                                       MatrixView<const T>, MatrixView<const T>, MatrixView<T>, TensorView<T>,         \
                                       TensorView<T>);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn
