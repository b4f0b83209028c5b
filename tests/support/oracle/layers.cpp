#include "support/oracle/layers.hpp"

#include <cmath>

namespace oracle {
namespace {

constexpr double epsilon = 1e-5;
constexpr double rotary_base = 10000.0;

struct Moments {
  double mean;        // 0 for RMSNorm
  double reciprocal;  // of the root
};

Moments moments_of(const Matrix& x, std::size_t row, bool centred) {
  const auto count = static_cast<double>(x.cols);
  double mean = 0.0;
  for (std::size_t j = 0; centred && j < x.cols; ++j)
    mean += x(row, j) / count;
  double square = 0.0;
  for (std::size_t j = 0; j < x.cols; ++j)
    square += (x(row, j) - mean) * (x(row, j) - mean) / count;
  return {mean, 1.0 / std::sqrt(square + epsilon)};
}

}  // namespace

Matrix linear(const Matrix& x, const Tensor& weight, const Tensor* bias) {
  const std::size_t outputs = weight.shape[0];
  Matrix y(x.rows, outputs);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t o = 0; o < outputs; ++o) {
      double sum = bias != nullptr ? bias->values[o] : 0.0;
      for (std::size_t i = 0; i < x.cols; ++i)
        sum += x(t, i) * weight.values[o * x.cols + i];
      y(t, o) = sum;
    }
  }
  return y;
}

Matrix linear_backward(const Matrix& x, const Tensor& weight, const Matrix& dy, Tensor& weight_gradient,
                       Tensor* bias_gradient) {
  Matrix dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t o = 0; o < dy.cols; ++o) {
      if (bias_gradient != nullptr) bias_gradient->values[o] += dy(t, o);
      for (std::size_t i = 0; i < x.cols; ++i) {
        weight_gradient.values[o * x.cols + i] += dy(t, o) * x(t, i);
        dx(t, i) += dy(t, o) * weight.values[o * x.cols + i];
      }
    }
  }
  return dx;
}

Matrix norm(const Matrix& x, const Tensor& weight, const Tensor* bias) {
  Matrix y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Moments moments = moments_of(x, t, bias != nullptr);
    for (std::size_t j = 0; j < x.cols; ++j) {
      y(t, j) = (x(t, j) - moments.mean) * moments.reciprocal * weight.values[j];
      if (bias != nullptr) y(t, j) += bias->values[j];
    }
  }
  return y;
}

Matrix norm_backward(const Matrix& x, const Tensor& weight, const Matrix& dy, Tensor& weight_gradient,
                     Tensor* bias_gradient) {
  const bool centred = bias_gradient != nullptr;
  const auto count = static_cast<double>(x.cols);
  Matrix dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Moments moments = moments_of(x, t, centred);
    double mean_g = 0.0;   // of g = dy w
    double mean_gn = 0.0;  // of g n, n the normalised x
    for (std::size_t j = 0; j < x.cols; ++j) {
      const double n = (x(t, j) - moments.mean) * moments.reciprocal;
      weight_gradient.values[j] += dy(t, j) * n;
      if (centred) bias_gradient->values[j] += dy(t, j);
      if (centred) mean_g += dy(t, j) * weight.values[j] / count;
      mean_gn += dy(t, j) * weight.values[j] * n / count;
    }
    for (std::size_t j = 0; j < x.cols; ++j) {
      const double n = (x(t, j) - moments.mean) * moments.reciprocal;
      dx(t, j) = moments.reciprocal * (dy(t, j) * weight.values[j] - mean_g - n * mean_gn);
    }
  }
  return dx;
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double factor = std::sqrt(2.0 / std::acos(-1.0));
  const double tangent = std::tanh(factor * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + tangent) + 0.5 * x * (1.0 - tangent * tangent) * factor * (1.0 + 3.0 * 0.044715 * x * x);
}

double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

double silu_slope(double x) {
  const double gate = 1.0 / (1.0 + std::exp(-x));
  return gate * (1.0 + x * (1.0 - gate));
}

void rotate(Matrix& x, std::size_t first, std::size_t heads, std::size_t dimension, double direction) {
  const std::size_t half = dimension / 2;
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const double frequency = std::pow(rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(dimension));
      const double angle = direction * static_cast<double>(t) * frequency;
      for (std::size_t head = 0; head < heads; ++head) {
        double& low = x(t, first + head * dimension + i);
        double& high = x(t, first + head * dimension + half + i);
        const double turned = low * std::cos(angle) - high * std::sin(angle);
        high = high * std::cos(angle) + low * std::sin(angle);
        low = turned;
      }
    }
  }
}

}  // namespace oracle
