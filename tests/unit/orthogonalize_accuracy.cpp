#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "support/matrices.hpp"
#include "support/polynomials.hpp"

// Against U p(sigma / ||G||) V^T from a Jacobi SVD in double.
namespace matrixfsdp {
namespace {

using reference::Dense;
using test::steps_of;
using test::Strided;
using Algorithm = NewtonSchulzAlgorithm;

template <class T>
Dense run(const Dense& input, Algorithm algorithm, const char* coefficients, int steps = 0) {
  const QuinticSequence& sequence = quintic_sequence(coefficients);
  NewtonSchulzWorkspace<T> workspace;
  const Strided<T> matrix(input);
  const Strided<T> output(input.rows, input.cols);
  const NewtonSchulzOptions options{algorithm, &sequence, steps > 0 ? steps : sequence.default_steps};
  const OrthogonalizeResult result = orthogonalize<T>(matrix.view(), output.view(), options, workspace);
  EXPECT_EQ(result.status, OrthogonalizeStatus::ok);
  EXPECT_EQ(result.steps, options.steps);
  return output.dense();
}

// The reference of the input as T sees it.
template <class T>
Dense exact(const Dense& input, const char* coefficients, int steps = 0) {
  const QuinticSequence& sequence = quintic_sequence(coefficients);
  return reference::newton_schulz(Strided<T>(input).dense(),
                                  steps_of(sequence, steps > 0 ? steps : sequence.default_steps));
}

std::vector<double> geometric(std::int64_t count, double condition) {
  std::vector<double> sigma;
  for (std::int64_t i = 0; i < count; ++i) {
    sigma.push_back(std::pow(condition, count > 1 ? -static_cast<double>(i) / static_cast<double>(count - 1) : 0.0));
  }
  return sigma;
}

using Extents = std::pair<std::int64_t, std::int64_t>;
// CASES 20: odd sizes among them.
const std::vector<Extents> shapes{{64, 256}, {256, 64}, {48, 48}, {33, 17}, {17, 33}, {1, 1}, {1, 40}, {40, 1}, {2, 3}};
const std::vector<const char*> sequences{"polar-express", "keller-jordan", "you", "polar-express-8"};

double bound(Algorithm algorithm, double other) {
  return algorithm == Algorithm::gram_no_restart ? 2e-2 : other;
}

TEST(OrthogonalizeAccuracy, WellConditioned) {
  for (const auto& [rows, cols] : shapes) {
    for (const double condition : {1.0, 10.0, 100.0}) {
      const Dense input = reference::with_spectrum(rows, cols, geometric(std::min(rows, cols), condition), 3);
      for (const char* name : sequences) {
        const Dense expected = exact<float>(input, name);
        for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
          EXPECT_LT(reference::relative_distance(run<float>(input, algorithm, name), expected), bound(algorithm, 5e-5))
              << rows << "x" << cols << " condition " << condition << " " << name << " " << name_of(algorithm);
        }
      }
    }
  }
}

TEST(OrthogonalizeAccuracy, DoubleIsCloseToTheReference) {
  for (const auto& [rows, cols] : shapes) {
    const Dense input = reference::with_spectrum(rows, cols, geometric(std::min(rows, cols), 50.0), 4);
    for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
      EXPECT_LT(reference::relative_distance(run<double>(input, algorithm, "polar-express"),
                                             exact<double>(input, "polar-express")),
                1e-11)
          << rows << "x" << cols << " " << name_of(algorithm);
    }
  }
}

TEST(OrthogonalizeAccuracy, RankDeficientAndDecayingSpectra) {
  for (const auto& [rows, cols] : std::vector<Extents>{{64, 256}, {256, 64}, {48, 48}, {65, 131}}) {
    const std::int64_t small = std::min(rows, cols);
    std::vector<double> half(static_cast<std::size_t>(small), 0.0);
    std::fill(half.begin(), half.begin() + small / 2, 1.0);
    std::vector<double> rank_two(static_cast<std::size_t>(small), 0.0);
    rank_two[0] = 1.0;
    rank_two[1] = 0.5;
    for (const auto& sigma : {geometric(small, 1e5), half, rank_two}) {
      const Dense input = reference::with_spectrum(rows, cols, sigma, 5);
      for (const char* name : {"polar-express", "keller-jordan", "you"}) {
        const Dense expected = exact<float>(input, name);
        for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
          EXPECT_LT(reference::relative_distance(run<float>(input, algorithm, name), expected), bound(algorithm, 1e-3))
              << rows << "x" << cols << " " << name << " " << name_of(algorithm) << " sigma_1 " << sigma[1];
        }
      }
    }
  }
}

TEST(OrthogonalizeAccuracy, EveryNumberOfSteps) {
  const Dense input = reference::with_spectrum(24, 60, geometric(24, 20.0), 6);
  for (int steps = 1; steps <= 9; ++steps) {
    const Dense expected = exact<float>(input, "polar-express", steps);
    for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
      EXPECT_LT(reference::relative_distance(run<float>(input, algorithm, "polar-express", steps), expected),
                bound(algorithm, 5e-5))
          << steps << " " << name_of(algorithm);
    }
  }
}

struct Range {
  const char* name;
  double low;
  double high;
  double largest;  // for any input
};
const Range ranges[] = {
    {"keller-jordan", 0.681, 1.136, 1.203}, {"you", 0.976, 1.034, 1.146}, {"polar-express", 0.845, 1.125, 1.124}};

TEST(OrthogonalizeAccuracy, SingularValuesOfWideGaussians) {
  const Dense input = reference::gaussian(64, 256, 7);
  for (const Range& range : ranges) {
    for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
      const std::vector<double> sigma = reference::svd(run<float>(input, algorithm, range.name)).sigma;
      EXPECT_GT(*std::min_element(sigma.begin(), sigma.end()), range.low) << range.name << name_of(algorithm);
      EXPECT_LT(*std::max_element(sigma.begin(), sigma.end()), range.high) << range.name << name_of(algorithm);
    }
  }
}

TEST(OrthogonalizeAccuracy, LargestSingularValueIsBounded) {
  std::vector<Dense> inputs{reference::gaussian(48, 48, 8), reference::with_spectrum(48, 48, geometric(48, 1e5), 9),
                            reference::with_spectrum(40, 90, geometric(40, 1e3), 10)};
  for (const Dense& input : inputs) {
    for (const Range& range : ranges) {
      for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram}) {
        const std::vector<double> sigma = reference::svd(run<float>(input, algorithm, range.name)).sigma;
        EXPECT_LT(*std::max_element(sigma.begin(), sigma.end()), range.largest + 1e-3)
            << range.name << " " << name_of(algorithm);
      }
    }
  }
}

// Eight steps reach the polar factor itself where no sigma / ||G|| is below 1e-3.
TEST(OrthogonalizeAccuracy, EightStepsGiveThePolarFactor) {
  for (const auto& [rows, cols] : std::vector<Extents>{{64, 256}, {256, 64}, {48, 48}}) {
    const std::int64_t small = std::min(rows, cols);
    for (const double condition : {10.0, 100.0}) {
      const Dense input = reference::with_spectrum(rows, cols, geometric(small, condition), 11);
      const Dense expected = reference::polar(input);
      for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram}) {
        const double error = reference::distance(run<float>(input, algorithm, "polar-express-8"), expected);
        EXPECT_LT(error / std::sqrt(static_cast<double>(small)), 1e-4) << rows << "x" << cols << name_of(algorithm);
      }
    }
  }
}

TEST(OrthogonalizeAccuracy, GramAgreesWithStandard) {
  for (const auto& [rows, cols] : std::vector<Extents>{{64, 256}, {256, 64}, {31, 95}}) {
    const Dense input = reference::gaussian(rows, cols, 12);
    for (const char* name : sequences) {
      const Dense standard = run<float>(input, Algorithm::standard, name);
      EXPECT_LT(reference::relative_distance(run<float>(input, Algorithm::gram, name), standard), 1e-4) << name;
    }
  }
}

TEST(OrthogonalizeAccuracy, TransposeIsEquivariant) {
  const Dense input = reference::gaussian(37, 91, 13);
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
    const Dense wide = run<float>(input, algorithm, "polar-express");
    const Dense tall = run<float>(reference::transpose(input), algorithm, "polar-express");
    EXPECT_LT(reference::relative_distance(reference::transpose(tall), wide), 1e-4) << name_of(algorithm);
  }
}

// The sign: a first polynomial that is negative somewhere would step uphill there.
TEST(OrthogonalizeAccuracy, ResultPointsAlongTheInput) {
  const std::vector<Dense> inputs{reference::gaussian(20, 30, 14),
                                  reference::with_spectrum(20, 30, geometric(20, 1.0), 15),
                                  reference::with_spectrum(20, 30, geometric(20, 1e8), 16)};
  for (const Dense& input : inputs) {
    for (const std::string_view name : quintic_sequence_names()) {
      EXPECT_GT(reference::dot(run<float>(input, Algorithm::automatic, std::string(name).c_str()), input), 0.0) << name;
    }
  }
}

// One row: p(1) times the unit vector, which is not a unit vector.
TEST(OrthogonalizeAccuracy, OneRowOrColumn) {
  const Dense row = reference::gaussian(1, 50, 17);
  const std::pair<const char*, double> expected[] = {
      {"keller-jordan", 0.6964}, {"you", 0.978}, {"polar-express", 1.019}};
  for (const auto& [name, factor] : expected) {
    for (const Dense& input : {row, reference::transpose(row)}) {
      Dense unit = input;
      for (double& value : unit.values)
        value /= reference::norm(input);
      const Dense output = run<float>(input, Algorithm::automatic, name);
      EXPECT_NEAR(reference::norm(output), factor, 1e-3) << name;
      for (double& value : unit.values)
        value *= reference::norm(output);
      EXPECT_LT(reference::relative_distance(output, unit), 1e-6) << name;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
