#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "support/matrices.hpp"
#include "support/polynomials.hpp"

// CASES 17 and 18: the answer does not depend on the scale, and degenerate inputs have one.
namespace matrixfsdp {
namespace {

using reference::Dense;
using test::Strided;

template <class T>
Strided<T> run(const Dense& input) {
  NewtonSchulzWorkspace<T> workspace;
  const Strided<T> matrix(input);
  const Strided<T> output(input.rows, input.cols);
  EXPECT_EQ(orthogonalize<T>(matrix.view(), output.view(), {}, workspace).status, OrthogonalizeStatus::ok);
  return output;
}

template <class T>
Dense rounded(Dense input) {
  for (double& value : input.values)
    value = static_cast<double>(static_cast<T>(value));
  return input;
}

Dense scaled(Dense input, double factor) {
  for (double& value : input.values)
    value *= factor;
  return input;
}

TEST(OrthogonalizeScale, PowersOfTwoChangeNoBit) {
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{16, 40}, {33, 33}, {50, 7}, {1, 9}, {70, 70}}) {
    const Dense input = rounded<float>(reference::gaussian(rows, cols, 1));
    const std::string expected = run<float>(input).bits();
    for (const int exponent : {-100, -30, -1, 1, 30, 100}) {
      EXPECT_EQ(run<float>(scaled(input, std::ldexp(1.0, exponent))).bits(), expected)
          << rows << "x" << cols << " 2^" << exponent;
    }
  }
}

TEST(OrthogonalizeScale, PowersOfTwoChangeNoBitOfDouble) {
  const Dense input = reference::gaussian(12, 31, 2);
  const std::string expected = run<double>(input).bits();
  for (const int exponent : {-1000, -501, -30, 30, 499, 1000}) {
    EXPECT_EQ(run<double>(scaled(input, std::ldexp(1.0, exponent))).bits(), expected) << exponent;
  }
}

// The rounding of the input, 6e-8, is amplified by the slope of the composition at 0 (804) at most.
TEST(OrthogonalizeScale, AnyFactorChangesRoundingOnly) {
  const Dense input = rounded<float>(reference::gaussian(24, 56, 3));
  const Dense expected = run<float>(input).dense();
  for (const double factor : {1e-30, 1e-10, 3.0, 1e10, 1e30}) {
    EXPECT_LT(reference::relative_distance(run<float>(scaled(input, factor)).dense(), expected), 5e-5) << factor;
  }
}

// Small integers stay exact as multiples of the smallest denormal, so no bit may change.
TEST(OrthogonalizeScale, DenormalsAreValuesLikeAnyOther) {
  const Dense input = test::integers(9, 21, 4);
  EXPECT_EQ(run<float>(scaled(input, static_cast<double>(std::numeric_limits<float>::denorm_min()))).bits(),
            run<float>(input).bits());
  EXPECT_EQ(run<double>(scaled(input, std::numeric_limits<double>::denorm_min())).bits(), run<double>(input).bits());
}

TEST(OrthogonalizeScale, LargestFiniteValues) {
  Dense input(2, 2);
  input.values = {1.0, -1.0, 1.0, 1.0};
  EXPECT_EQ(run<float>(scaled(input, static_cast<double>(std::numeric_limits<float>::max()))).bits(),
            run<float>(scaled(input, std::ldexp(2.0 - std::ldexp(1.0, -23), 0))).bits());
  EXPECT_LT(reference::relative_distance(run<double>(scaled(input, std::numeric_limits<double>::max())).dense(),
                                         run<double>(input).dense()),
            1e-14);
}

// What torch.optim.Muon does to tiny norms, where it is asked for: x / max(norm, floor).
TEST(OrthogonalizeScale, ANormFloorScalesOnlyWhatIsBelowIt) {
  const Dense input = rounded<float>(reference::gaussian(12, 20, 8));
  const auto with_floor = [&](const Dense& matrix, double floor, auto zero) {
    using T = decltype(zero);
    NewtonSchulzWorkspace<T> workspace;
    const Strided<T> values(matrix);
    const Strided<T> output(matrix.rows, matrix.cols);
    NewtonSchulzOptions options;
    options.norm_floor = floor;
    EXPECT_EQ(orthogonalize<T>(values.view(), output.view(), options, workspace).status, OrthogonalizeStatus::ok);
    return output.dense();
  };
  const double norm = reference::norm(input);
  EXPECT_EQ(with_floor(input, 0.999 * norm, 0.0F).values, run<float>(input).dense().values);
  // Singular values of the input over the floor, through the same polynomials.
  reference::Svd parts = reference::svd(input);
  const reference::Steps steps = test::steps_of(quintic_sequence("polar-express"), 5);
  for (const double floor : {10 * norm, 1e3 * norm}) {
    std::vector<double> sigma = parts.sigma;
    for (double& value : sigma)
      value = reference::apply(steps, value / floor);
    const Dense expected = reference::compose(parts, sigma);
    EXPECT_LT(reference::relative_distance(with_floor(input, floor, 0.0F), expected), 5e-5) << floor;
    EXPECT_LT(reference::relative_distance(with_floor(input, floor, 0.0), expected), 1e-11) << floor;
  }
  EXPECT_THROW(with_floor(input, -1, 0.0F), ContractError);
  EXPECT_THROW(with_floor(input, std::numeric_limits<double>::infinity(), 0.0F), ContractError);
}

TEST(OrthogonalizeScale, ZeroGivesZero) {
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{5, 9}, {9, 5}, {4, 4}, {1, 1}}) {
    NewtonSchulzWorkspace<float> workspace;
    Strided<float> matrix(rows, cols);
    matrix.fill(0.0F);
    matrix(0, 0) = -0.0F;
    Strided<float> output(rows, cols, 2);
    output.fill(std::numeric_limits<float>::quiet_NaN());
    const OrthogonalizeResult result = orthogonalize<float>(matrix.view(), output.view(), {}, workspace);
    EXPECT_EQ(result.status, OrthogonalizeStatus::zero);
    EXPECT_EQ(result.flops, 0);
    EXPECT_EQ(output.dense().values, std::vector<double>(static_cast<std::size_t>(rows * cols), 0.0));
    EXPECT_TRUE(output.gaps_are_untouched());
  }
}

template <class T>
void expect_non_finite(T value, std::int64_t row, std::int64_t col) {
  NewtonSchulzWorkspace<T> workspace;
  const Strided<T> matrix(reference::gaussian(70, 130, 5));
  matrix(row, col) = value;
  const Strided<T> output(70, 130, 1);
  const std::string before = output.bits();
  const OrthogonalizeResult result = orthogonalize<T>(matrix.view(), output.view(), {}, workspace);
  EXPECT_EQ(result.status, OrthogonalizeStatus::non_finite) << value << " at " << row << ", " << col;
  EXPECT_EQ(result.flops, 0);
  EXPECT_EQ(output.bits(), before);
}

TEST(OrthogonalizeScale, NonFiniteInputIsToldAndTheResultLeftAlone) {
  for (const auto& [row, col] : std::vector<std::pair<int, int>>{{0, 0}, {69, 129}, {31, 64}, {5, 127}}) {
    expect_non_finite(std::numeric_limits<float>::quiet_NaN(), row, col);
    expect_non_finite(std::numeric_limits<float>::infinity(), row, col);
    expect_non_finite(-std::numeric_limits<float>::infinity(), row, col);
    expect_non_finite(std::numeric_limits<double>::quiet_NaN(), row, col);
    expect_non_finite(-std::numeric_limits<double>::infinity(), row, col);
  }
}

TEST(OrthogonalizeScale, DivergenceIsAStatus) {
  NewtonSchulzWorkspace<float> workspace;
  const Strided<float> matrix(reference::gaussian(6, 8, 6));
  const Strided<float> output(6, 8);
  const auto status = [&](double a, int steps) {
    const QuinticSequence sequence{"growing", {{a, 0.0, 0.0}}, steps};
    const NewtonSchulzOptions options{NewtonSchulzAlgorithm::standard, &sequence, steps};
    return orthogonalize<float>(matrix.view(), output.view(), options, workspace).status;
  };
  // The result has the norm a^steps, 4 sqrt(6) is 9.8.
  EXPECT_EQ(status(9.7, 1), OrthogonalizeStatus::ok);
  EXPECT_EQ(status(9.9, 1), OrthogonalizeStatus::diverged);
  EXPECT_EQ(status(1e10, 3), OrthogonalizeStatus::diverged);
  EXPECT_EQ(status(1e10, 5), OrthogonalizeStatus::diverged) << "not finite";
}

// What the header promises: the standard algorithm for any number of steps, the Gram form for the usual ones.
TEST(OrthogonalizeScale, SingularInputsDoNotDiverge) {
  NewtonSchulzWorkspace<float> workspace;
  for (const int rank : {1, 2, 16}) {
    std::vector<double> sigma(32, 0.0);
    std::fill(sigma.begin(), sigma.begin() + rank, 1.0);
    const Strided<float> matrix(reference::with_spectrum(32, 128, sigma, 7));
    const Strided<float> output(32, 128);
    for (const std::string_view name : quintic_sequence_names()) {
      const QuinticSequence& sequence = quintic_sequence(name);
      const auto status = [&](NewtonSchulzAlgorithm algorithm, int steps) {
        return orthogonalize<float>(matrix.view(), output.view(), {algorithm, &sequence, steps}, workspace).status;
      };
      for (int steps = 1; steps <= 30; ++steps) {
        EXPECT_EQ(status(NewtonSchulzAlgorithm::standard, steps), OrthogonalizeStatus::ok) << name << " " << steps;
      }
      for (int steps = 1; steps <= 8; ++steps) {
        EXPECT_EQ(status(NewtonSchulzAlgorithm::gram, steps), OrthogonalizeStatus::ok) << name << " " << steps;
      }
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
