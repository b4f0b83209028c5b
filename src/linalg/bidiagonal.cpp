#include "linalg/bidiagonal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::linalg {
namespace {

using Column = std::array<double, most_bidiagonal>;

double dot(const Column& x, const Column& y, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += x[static_cast<std::size_t>(i)] * y[static_cast<std::size_t>(i)];
  return sum;
}

/// Makes two columns orthogonal; false where they were.
bool rotate(Column& x, Column& y, std::int64_t count) {
  constexpr double tolerance = 1e-15;
  const double xx = dot(x, x, count);
  const double yy = dot(y, y, count);
  const double xy = dot(x, y, count);
  if (std::abs(xy) <= tolerance * std::sqrt(xx * yy)) return false;
  const double zeta = (yy - xx) / (2 * xy);
  const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double c = 1 / std::sqrt(1 + t * t);
  const double s = c * t;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double before = x[at];
    x[at] = c * before - s * y[at];
    y[at] = s * before + c * y[at];
  }
  return true;
}

}  // namespace

void Bidiagonal::append(double diagonal) {
  require(size_ < most_bidiagonal, "bidiagonal: no room for one more step");
  const auto last = static_cast<std::size_t>(size_++);
  diagonal_[last] = diagonal;
  super_[last] = std::exchange(above_, 0.0);
}

SingularValues Bidiagonal::singular_values() const {
  constexpr int most_sweeps = 60;  // a handful, as for any matrix
  const auto count = static_cast<std::size_t>(size_);
  SingularValues result;
  result.steps = size_;
  std::array<Column, most_bidiagonal> columns{};
  for (std::size_t j = 0; j < count; ++j) {
    if (!std::isfinite(diagonal_[j]) || !std::isfinite(super_[j])) {
      result.largest = result.smallest = std::numeric_limits<double>::quiet_NaN();
      return result;
    }
    columns[j][j] = diagonal_[j];
    if (j > 0) columns[j][j - 1] = super_[j];
  }
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < most_sweeps; ++sweep) {
    rotated = false;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j)
        rotated = rotate(columns[i], columns[j], size_) || rotated;
    }
  }
  result.smallest = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < count; ++j) {
    const double norm = std::sqrt(dot(columns[j], columns[j], size_));
    result.largest = std::max(result.largest, norm);
    result.smallest = std::min(result.smallest, norm);
  }
  return result;
}

}  // namespace matrixfsdp::linalg
