#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "support/oracle/newton_schulz.hpp"

namespace oracle {
namespace {

/// The orthogonal, symmetric matrix I - 2 v v^T / (v^T v), v_i = 1 + i / 2 - seed.
Matrix reflection(std::size_t size, double seed) {
  std::vector<double> v(size);
  double square = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    v[i] = 1.0 + 0.5 * static_cast<double>(i) - seed;
    square += v[i] * v[i];
  }
  Matrix q(size, size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j)
      q(i, j) = (i == j ? 1.0 : 0.0) - 2.0 * v[i] * v[j] / square;
  }
  return q;
}

/// U diag(sigma) V^T, rows x cols, for known U and V.
Matrix with_singular_values(std::size_t rows, std::size_t cols, const std::vector<double>& sigma) {
  const Matrix u = reflection(rows, 0.3);
  const Matrix v = reflection(cols, 1.9);
  Matrix a(rows, cols);
  for (std::size_t k = 0; k < sigma.size(); ++k) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < cols; ++j)
        a(i, j) += u(i, k) * sigma[k] * v(j, k);
    }
  }
  return a;
}

double polynomials(const std::string& table, std::size_t steps, double x) {
  for (std::size_t step = 0; step < steps; ++step) {
    const Quintic p = quintic(table, step);
    x = p.a * x + p.b * std::pow(x, 3) + p.c * std::pow(x, 5);
  }
  return x;
}

TEST(OracleNewtonSchulz, singular_values_follow_the_scalar_polynomials) {
  const std::vector<double> sigma{40.0, 11.0, 3.0, 0.25, 0.0};
  const double length = std::sqrt(40.0 * 40.0 + 11.0 * 11.0 + 3.0 * 3.0 + 0.25 * 0.25);
  for (const std::string table : {"polar-express", "keller-jordan"}) {
    for (const std::size_t steps : {1, 2, 5, 9}) {
      std::vector<double> expected_sigma;
      for (const double value : sigma)
        expected_sigma.push_back(polynomials(table, steps, value / length));
      for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{5, 5}, {5, 8}, {9, 5}}) {
        const Matrix result = newton_schulz(with_singular_values(rows, cols, sigma), table, steps);
        const Matrix expected = with_singular_values(rows, cols, expected_sigma);
        for (std::size_t i = 0; i < rows * cols; ++i)
          ASSERT_NEAR(result.values[i], expected.values[i], 1e-11) << table << " " << steps << " steps, element " << i;
      }
    }
  }
}

// What the published tables are known to do with five steps.
TEST(OracleNewtonSchulz, tables_have_their_known_ranges) {
  EXPECT_NEAR(polynomials("keller-jordan", 1, 1.0), 0.7010, 1e-12);
  EXPECT_NEAR(polynomials("keller-jordan", 5, 1.0), 0.6964, 5e-5);
  EXPECT_NEAR(polynomials("polar-express", 5, 1.0), 1.019, 5e-4);
  EXPECT_NEAR(polynomials("keller-jordan", 5, 1e-9) / 1e-9, 484.9, 0.05);
  EXPECT_NEAR(polynomials("polar-express", 5, 1e-9) / 1e-9, 804.0, 0.5);
  double smallest = 2.0;
  double largest = 0.0;
  for (int i = 0; i <= 100000; ++i) {
    const double y = polynomials("polar-express", 5, 1e-2 + 0.99 * i / 100000.0);
    smallest = std::min(smallest, y);
    largest = std::max(largest, y);
  }
  EXPECT_NEAR(smallest, 0.8461, 5e-5);
  EXPECT_NEAR(largest, 1.1236, 5e-5);
  // The sixth entry and later ones have no safety factor: with them everything comes to 1.
  EXPECT_NEAR(polynomials("polar-express", 12, 0.01), 1.0, 1e-9);
}

TEST(OracleNewtonSchulz, zero_stays_zero_and_scale_does_not_matter) {
  EXPECT_EQ(newton_schulz(Matrix(3, 4), "polar-express", 5).values, std::vector<double>(12, 0.0));
  const std::vector<double> sigma{2.0, 1.0};
  const Matrix large = newton_schulz(with_singular_values(2, 3, {2e30, 1e30}), "polar-express", 5);
  const Matrix small = newton_schulz(with_singular_values(2, 3, {2e-30, 1e-30}), "polar-express", 5);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(large.values[i], small.values[i], 1e-12);
}

TEST(OracleNewtonSchulz, an_unknown_table_is_refused) {
  EXPECT_THROW(quintic("express", 0), std::invalid_argument);
}

}  // namespace
}  // namespace oracle
