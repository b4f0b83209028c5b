#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

#include "nn/column_kernel.hpp"
#include "nn/row_kernel.hpp"

/// Kernels of LayerNorm (with_mean) and RMSNorm (without mean and bias).
namespace matrixfsdp::nn::detail {

inline constexpr double norm_epsilon = 1e-5;

template <class T>
struct NormStatistics {
  T* mean;  // null without mean
  T* inverse;
};

template <bool with_mean, class T>
void norm_statistics(const char* label, MatrixView<const T> x, NormStatistics<T> statistics) {
  for_rows(
      label, x.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        const T* const values = x.data + r * x.stride;
        const auto count = static_cast<double>(x.cols);
        T mean = 0;
        if (with_mean)
          mean = static_cast<T>(row.template sum<T>(x.cols, [&](std::int64_t i) { return values[i]; }) / count);
        const double squares = row.template sum<T>(x.cols, [&](std::int64_t i) {
          const T centred = with_mean ? values[i] - mean : values[i];
          return centred * centred;
        });
        row.once([&]() {
          if (with_mean) statistics.mean[r] = mean;
          statistics.inverse[r] = static_cast<T>(1.0 / ::sqrt(squares / count + norm_epsilon));
        });
      });
}

template <bool with_mean, class T>
void norm_apply(const char* label, MatrixView<const T> x, const T* weight, const T* bias, NormStatistics<T> statistics,
                MatrixView<T> y) {
  for_rows(
      label, x.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        const T* const in = x.data + r * x.stride;
        T* const out = y.data + r * y.stride;
        const T mean = with_mean ? statistics.mean[r] : T{0};
        const T inverse = statistics.inverse[r];
        row.for_each(x.cols, [&](std::int64_t i) {
          const T normalized = (with_mean ? in[i] - mean : in[i]) * inverse;
          out[i] = with_mean ? normalized * weight[i] + bias[i] : normalized * weight[i];
        });
      });
}

// With n = (x - mean) inverse and g = dy weight: dx = inverse (g - mean(g) - n mean(g n)); RMSNorm has no mean(g).
template <bool with_mean, class T>
void norm_input_gradient(const char* label, MatrixView<const T> x, const T* weight, NormStatistics<T> statistics,
                         MatrixView<const T> dy, MatrixView<const T> residual, MatrixView<T> dx) {
  for_rows(
      label, x.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        const T* const in = x.data + r * x.stride;
        const T* const gradient = dy.data + r * dy.stride;
        const T* const base = residual.data == nullptr ? nullptr : residual.data + r * residual.stride;
        T* const out = dx.data + r * dx.stride;
        const T mean = with_mean ? statistics.mean[r] : T{0};
        const T inverse = statistics.inverse[r];
        const auto count = static_cast<double>(x.cols);
        T mean_g = 0;
        if (with_mean) {
          mean_g = static_cast<T>(row.template sum<T>(x.cols, [&](std::int64_t i) { return gradient[i] * weight[i]; }) /
                                  count);
        }
        const auto mean_gn = static_cast<T>(row.template sum<T>(x.cols, [&](std::int64_t i) {
          return gradient[i] * weight[i] * ((in[i] - mean) * inverse);
        }) / count);
        if (base == nullptr) {
          row.for_each(x.cols, [&](std::int64_t i) {
            out[i] = inverse * (gradient[i] * weight[i] - mean_g - (in[i] - mean) * inverse * mean_gn);
          });
        } else {
          row.for_each(x.cols, [&](std::int64_t i) {
            out[i] = base[i] + inverse * (gradient[i] * weight[i] - mean_g - (in[i] - mean) * inverse * mean_gn);
          });
        }
      });
}

template <bool with_mean, class T>
void norm_weight_gradient(const char* label, MatrixView<const T> x, NormStatistics<T> statistics,
                          MatrixView<const T> dy, const TensorView<T>& weight_gradient) {
  add_column_sums(
      label, x.rows, weight_gradient, KOKKOS_LAMBDA(const std::int64_t r, const std::int64_t c) {
        const T mean = with_mean ? statistics.mean[r] : T{0};
        return dy(r, c) * ((x(r, c) - mean) * statistics.inverse[r]);
      });
}

/// out(c) += column sums of dy: the gradient of a bias.
template <class T>
void add_bias_gradient(MatrixView<const T> dy, const TensorView<T>& out) {
  add_column_sums(
      "matrixfsdp::nn::bias_gradient", dy.rows, out,
      KOKKOS_LAMBDA(const std::int64_t r, const std::int64_t c) { return dy(r, c); });
}

}  // namespace matrixfsdp::nn::detail
