#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "support/matrices.hpp"

namespace matrixfsdp::test {

/// sum of y * dy: a scalar whose gradient with respect to y is dy.
inline double weighted_sum(const Strided<double>& y, const reference::Dense& dy) {
  return reference::dot(y.dense(), dy);
}

/// Compares `gradient` with central differences of `loss()`, a function of the elements of `x`.
template <class Loss>
void expect_gradient(const char* name, MatrixView<double> x, MatrixView<const double> gradient, const Loss& loss) {
  constexpr double step = 1e-5;
  double size = 0.0;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j)
      size = std::max(size, std::abs(gradient(i, j)));
  }
  EXPECT_GT(size, 1e-3) << name;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const double kept = x(i, j);
      x(i, j) = kept + step;
      const double above = loss();
      x(i, j) = kept - step;
      const double below = loss();
      x(i, j) = kept;
      ASSERT_NEAR(gradient(i, j), (above - below) / (2.0 * step), 1e-7 * size) << name << " (" << i << ", " << j << ")";
    }
  }
}

inline MatrixView<double> as_row(const Tensor<double>& values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.extent(0))};
}

inline Tensor<double> random_tensor(std::int64_t count, std::uint64_t seed, double offset = 0.0) {
  Tensor<double> result = make_tensor<double>("test", count);
  const CounterRandom random(seed, 2);
  for (std::int64_t i = 0; i < count; ++i)
    result.data()[i] = offset + random.normal(static_cast<std::uint64_t>(i));
  return result;
}

}  // namespace matrixfsdp::test
