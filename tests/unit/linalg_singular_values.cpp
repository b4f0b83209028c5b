#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/linalg/singular_values.hpp>

#include "support/matrices.hpp"
#include "support/reference_linalg.hpp"

namespace matrixfsdp {
namespace {

using linalg::estimate_singular_values;
using linalg::SingularValues;
using linalg::SingularValueWorkspace;
using reference::Dense;
using test::Strided;

/// rows x cols with singular values that fall from 1 to 1 / condition, evenly in their logarithm.
Dense decaying(std::int64_t rows, std::int64_t cols, double condition, std::uint64_t seed) {
  const reference::Svd bases = reference::svd(reference::gaussian(rows, cols, seed));
  const std::int64_t rank = std::min(rows, cols);
  Dense scaled = bases.u;
  for (std::int64_t k = 0; k < rank; ++k) {
    for (std::int64_t i = 0; i < rows; ++i)
      scaled(i, k) *=
          std::pow(condition, -static_cast<double>(k) / static_cast<double>(std::max<std::int64_t>(1, rank - 1)));
  }
  return reference::multiply(scaled, reference::transpose(bases.v));
}

struct Extremes {
  double largest;
  double smallest;
};

/// Of the values as they are in float32.
Extremes extremes(const Strided<float>& matrix) {
  const std::vector<double> sigma = reference::svd(matrix.dense()).sigma;
  return {*std::max_element(sigma.begin(), sigma.end()), *std::min_element(sigma.begin(), sigma.end())};
}

// As many steps as the smaller extent: exact, whatever the shape and the spectrum.
TEST(SingularValueEstimates, are_exact_with_as_many_steps_as_the_smaller_extent) {
  SingularValueWorkspace workspace;
  for (const auto& [rows, cols] : {std::pair{1, 1}, {1, 9}, {9, 1}, {2, 3}, {16, 16}, {13, 70}, {70, 13}, {24, 25}}) {
    for (const double condition : {1.0, 10.0, 1e4}) {
      const Strided<float> matrix(decaying(rows, cols, condition, 7), 3);
      const Extremes expected = extremes(matrix);
      const SingularValues found = estimate_singular_values(matrix.view(), 64, workspace);
      EXPECT_NEAR(found.largest, expected.largest, 1e-9 * expected.largest) << rows << "x" << cols;
      EXPECT_NEAR(found.smallest, expected.smallest, 1e-9 * expected.largest) << rows << "x" << cols;
      EXPECT_TRUE(matrix.gaps_are_untouched());
    }
  }
}

// Fewer steps: from inside the spectrum, the largest within a part in a hundred.
TEST(SingularValueEstimates, lie_inside_the_spectrum) {
  SingularValueWorkspace workspace;
  for (const auto& [rows, cols] : {std::pair{48, 48}, {40, 130}, {130, 40}}) {
    for (const double condition : {1.2, 10.0, 1e3}) {
      const Strided<float> matrix(decaying(rows, cols, condition, 11));
      const Extremes expected = extremes(matrix);
      const SingularValues found = estimate_singular_values(matrix.view(), 16, workspace);
      EXPECT_EQ(found.steps, 16);
      EXPECT_LE(found.largest, expected.largest * (1 + 1e-9));
      EXPECT_GE(found.largest, 0.99 * expected.largest) << rows << "x" << cols << " condition " << condition;
      EXPECT_GE(found.smallest, expected.smallest * (1 - 1e-9));
      if (condition < 2) {
        EXPECT_LE(found.smallest, 1.02 * expected.smallest) << "narrow, as of an orthogonalized matrix";
      }
    }
  }
}

// CASES 12, 14, 15: zero, singular, tiny and huge.
TEST(SingularValueEstimates, of_degenerate_matrices) {
  SingularValueWorkspace workspace;
  Strided<float> zero(5, 8);
  zero.fill(0.0F);
  SingularValues found = estimate_singular_values(zero.view(), 16, workspace);
  EXPECT_EQ(found.largest, 0);
  EXPECT_EQ(found.smallest, 0);
  const Dense column = reference::gaussian(12, 2, 3);
  const Strided<float> low_rank(reference::multiply(column, reference::gaussian(2, 9, 4)));
  found = estimate_singular_values(low_rank.view(), 9, workspace);
  EXPECT_NEAR(found.largest, extremes(low_rank).largest, 1e-9 * found.largest);
  EXPECT_LT(found.smallest, 1e-6 * found.largest);
  for (const double factor : {1e-36, 1e34}) {
    Dense scaled = reference::gaussian(7, 9, 5);
    for (double& value : scaled.values)
      value *= factor;
    const Strided<float> matrix(scaled);
    found = estimate_singular_values(matrix.view(), 16, workspace);
    EXPECT_NEAR(found.largest, extremes(matrix).largest, 1e-6 * found.largest) << factor;
    EXPECT_GT(found.smallest, 0);
  }
  EXPECT_EQ(estimate_singular_values(MatrixView<const float>(nullptr, 0, 4), 16, workspace).largest, 0);
  EXPECT_EQ(estimate_singular_values(low_rank.view(), 0, workspace).largest, 0);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Strided<float> matrix(reference::gaussian(6, 4, 6));
    matrix(2, 1) = bad;
    EXPECT_TRUE(std::isnan(estimate_singular_values(matrix.view(), 16, workspace).largest));
  }
}

TEST(SingularValueEstimates, are_the_same_bits_again_and_in_used_scratch) {
  const Strided<float> matrix(reference::gaussian(37, 91, 8));
  const Strided<float> larger(reference::gaussian(80, 120, 9));
  SingularValueWorkspace fresh;
  const SingularValues once = estimate_singular_values(matrix.view(), 16, fresh);
  EXPECT_EQ(fresh.bytes(), 8 * 16 * (37 + 91));
  SingularValueWorkspace used;
  estimate_singular_values(larger.view(), 16, used);
  const std::int64_t bytes = used.bytes();
  const SingularValues again = estimate_singular_values(matrix.view(), 16, used);
  EXPECT_EQ(again.largest, once.largest);
  EXPECT_EQ(again.smallest, once.smallest);
  EXPECT_EQ(used.bytes(), bytes);
}

}  // namespace
}  // namespace matrixfsdp
