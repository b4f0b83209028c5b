#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <matrixfsdp/core/random.hpp>

/// Slow, obvious linear algebra in double: the oracle. Includes none of the modules that it judges.
namespace matrixfsdp::reference {

struct Dense {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;

  Dense() = default;
  Dense(std::int64_t row_count, std::int64_t col_count)
      : rows(row_count), cols(col_count), values(static_cast<std::size_t>(row_count * col_count), 0.0) {}

  double& operator()(std::int64_t row, std::int64_t col) { return values[static_cast<std::size_t>(row * cols + col)]; }
  double operator()(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
};

inline Dense transpose(const Dense& a) {
  Dense result(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j)
      result(j, i) = a(i, j);
  }
  return result;
}

inline Dense multiply(const Dense& a, const Dense& b) {
  Dense result(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.cols; ++k) {
      for (std::int64_t j = 0; j < b.cols; ++j)
        result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

inline double dot(const Dense& a, const Dense& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    sum += a.values[i] * b.values[i];
  return sum;
}

inline double norm(const Dense& a) {
  return std::sqrt(dot(a, a));
}

inline double distance(const Dense& a, const Dense& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    sum += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
  return std::sqrt(sum);
}

inline double relative_distance(const Dense& a, const Dense& expected) {
  return distance(a, expected) / norm(expected);
}

inline Dense gaussian(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Dense result(rows, cols);
  const CounterRandom random(seed, 0);
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = random.normal(i);
  return result;
}

/// A = U diag(sigma) V^T; U is rows x r, V is cols x r, r the smaller extent. Columns of U of a zero sigma are zero.
struct Svd {
  Dense u;
  std::vector<double> sigma;
  Dense v;
};

/// One-sided Jacobi (Hestenes 1958): rotates pairs of columns until all are orthogonal. Throws where it does not end,
/// as for a matrix with NaN.
inline Svd svd(const Dense& a) {
  if (a.rows < a.cols) {
    Svd flipped = svd(transpose(a));
    return {flipped.v, flipped.sigma, flipped.u};
  }
  const std::int64_t n = a.cols;
  Dense columns = transpose(a);  // row j is column j of A
  Dense v(n, n);                 // row j is column j of V
  for (std::int64_t j = 0; j < n; ++j)
    v(j, j) = 1.0;
  bool rotated = true;
  for (int sweep = 0; rotated; ++sweep) {
    if (sweep == 60) throw std::runtime_error("reference svd: no convergence in 60 sweeps");
    rotated = false;
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        double pp = 0.0;
        double qq = 0.0;
        double pq = 0.0;
        for (std::int64_t i = 0; i < a.rows; ++i) {
          pp += columns(p, i) * columns(p, i);
          qq += columns(q, i) * columns(q, i);
          pq += columns(p, i) * columns(q, i);
        }
        if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq) || pq == 0.0) continue;
        rotated = true;
        const double zeta = (qq - pp) / (2.0 * pq);
        const double t = (zeta >= 0.0 ? 1.0 : -1.0) / (std::abs(zeta) + std::sqrt(1.0 + zeta * zeta));
        const double c = 1.0 / std::sqrt(1.0 + t * t);
        const auto rotate = [&](Dense& rows_of) {
          for (std::int64_t i = 0; i < rows_of.cols; ++i) {
            const double x = rows_of(p, i);
            const double y = rows_of(q, i);
            rows_of(p, i) = c * (x - t * y);
            rows_of(q, i) = c * (t * x + y);
          }
        };
        rotate(columns);
        rotate(v);
      }
    }
  }
  Svd result{Dense(a.rows, n), std::vector<double>(static_cast<std::size_t>(n)), transpose(v)};
  for (std::int64_t j = 0; j < n; ++j) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < a.rows; ++i)
      sum += columns(j, i) * columns(j, i);
    const double sigma = std::sqrt(sum);
    result.sigma[static_cast<std::size_t>(j)] = sigma;
    for (std::int64_t i = 0; i < a.rows && sigma > 0.0; ++i)
      result.u(i, j) = columns(j, i) / sigma;
  }
  return result;
}

/// U diag(sigma) V^T with sigma replaced.
inline Dense compose(const Svd& parts, const std::vector<double>& sigma) {
  Dense scaled = parts.u;
  for (std::int64_t i = 0; i < scaled.rows; ++i) {
    for (std::int64_t j = 0; j < scaled.cols; ++j)
      scaled(i, j) *= sigma[static_cast<std::size_t>(j)];
  }
  return multiply(scaled, transpose(parts.v));
}

/// U V^T
inline Dense polar(const Dense& a) {
  const Svd parts = svd(a);
  return compose(parts, std::vector<double>(parts.sigma.size(), 1.0));
}

/// rows x cols with these singular values (their number is the smaller extent) and random singular vectors.
inline Dense with_spectrum(std::int64_t rows, std::int64_t cols, const std::vector<double>& sigma, std::uint64_t seed) {
  return compose(svd(gaussian(rows, cols, seed)), sigma);
}

/// a x + b x^3 + c x^5, one after another.
using Steps = std::vector<std::array<double, 3>>;

inline double apply(const Steps& steps, double x) {
  for (const auto& [a, b, c] : steps)
    x = x * (a + x * x * (b + x * x * c));
  return x;
}

/// What Newton-Schulz computes in exact arithmetic: U p(sigma / ||A||_F) V^T; zero for a zero matrix.
inline Dense newton_schulz(const Dense& a, const Steps& steps) {
  Svd parts = svd(a);
  const double length = norm(a);
  for (double& sigma : parts.sigma)
    sigma = length > 0.0 ? apply(steps, sigma / length) : 0.0;
  return compose(parts, parts.sigma);
}

}  // namespace matrixfsdp::reference
