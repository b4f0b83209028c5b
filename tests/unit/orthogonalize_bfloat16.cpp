#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "support/count_allocations.hpp"
#include "support/matrices.hpp"
#include "support/messages.hpp"
#include "support/polynomials.hpp"

// Steps in bfloat16 against U p(sigma / ||G||) V^T from a Jacobi SVD in double.
namespace matrixfsdp {
namespace {

using reference::Dense;
using test::Strided;
using Extents = std::pair<std::int64_t, std::int64_t>;

NewtonSchulzOptions rounded_steps(const char* coefficients) {
  NewtonSchulzOptions options;
  options.coefficients = &quintic_sequence(coefficients);
  options.steps = options.coefficients->default_steps;
  options.dtype = DType::bfloat16;
  return options;
}

/// Where this build on this processor has no bfloat16, what must happen instead.
bool is_refused() {
  const std::string obstacle = linalg::bfloat16_obstacle();
  if (obstacle.empty()) return false;
  const Strided<float> matrix(reference::gaussian(4, 6, 1));
  NewtonSchulzWorkspace<float> workspace;
  const std::string message = test::message_of<InputError>(
      [&] { orthogonalize<float>(matrix.view(), matrix.view(), rounded_steps("you"), workspace); });
  EXPECT_TRUE(test::mentions(message, {obstacle}));
  return true;
}

Dense run(const Dense& input, const char* coefficients) {
  NewtonSchulzWorkspace<float> workspace;
  const Strided<float> matrix(input);
  const Strided<float> output(input.rows, input.cols);
  const OrthogonalizeResult result =
      orthogonalize<float>(matrix.view(), output.view(), rounded_steps(coefficients), workspace);
  EXPECT_EQ(result.status, OrthogonalizeStatus::ok);
  EXPECT_EQ(result.algorithm, NewtonSchulzAlgorithm::standard);
  return output.dense();
}

std::vector<double> geometric(std::int64_t count, double condition) {
  std::vector<double> sigma;
  for (std::int64_t i = 0; i < count; ++i)
    sigma.push_back(std::pow(condition, count > 1 ? -static_cast<double>(i) / static_cast<double>(count - 1) : 0.0));
  return sigma;
}

// CASES 20
TEST(OrthogonalizeBfloat16, WellConditioned) {
  if (is_refused()) return;
  for (const auto& [rows, cols] :
       std::vector<Extents>{{64, 256}, {256, 64}, {48, 48}, {33, 17}, {17, 33}, {1, 1}, {1, 40}, {40, 1}, {97, 130}}) {
    for (const double condition : {1.0, 10.0, 100.0}) {
      const Dense input = reference::with_spectrum(rows, cols, geometric(std::min(rows, cols), condition), 3);
      for (const char* name : {"polar-express", "keller-jordan", "you", "polar-express-8"}) {
        const QuinticSequence& sequence = quintic_sequence(name);
        const Dense expected = reference::newton_schulz(input, test::steps_of(sequence, sequence.default_steps));
        EXPECT_LT(reference::relative_distance(run(input, name), expected), 3e-2)
            << rows << "x" << cols << " condition " << condition << " " << name;
      }
    }
  }
}

TEST(OrthogonalizeBfloat16, SingularValuesOfWideGaussians) {
  if (is_refused()) return;
  struct Range {
    const char* name;
    double low;
    double high;
  };
  const Dense input = reference::gaussian(64, 256, 7);
  for (const Range& range :
       {Range{"keller-jordan", 0.681, 1.136}, Range{"you", 0.976, 1.034}, Range{"polar-express", 0.845, 1.125}}) {
    const std::vector<double> sigma = reference::svd(run(input, range.name)).sigma;
    EXPECT_GT(*std::min_element(sigma.begin(), sigma.end()), range.low - 0.02) << range.name;
    EXPECT_LT(*std::max_element(sigma.begin(), sigma.end()), range.high + 0.02) << range.name;
  }
}

// The rounding of the input is a full-rank change, amplified by the slope at 0: bounded, and along the input.
TEST(OrthogonalizeBfloat16, SingularAndDecayingInputsStayBounded) {
  if (is_refused()) return;
  for (const auto& [rows, cols] : std::vector<Extents>{{32, 128}, {128, 32}, {40, 40}}) {
    const std::int64_t small = std::min(rows, cols);
    std::vector<double> rank_one(static_cast<std::size_t>(small), 0.0);
    rank_one[0] = 1.0;
    std::vector<double> half(static_cast<std::size_t>(small), 0.0);
    std::fill(half.begin(), half.begin() + small / 2, 1.0);
    for (const auto& sigma : {rank_one, half, geometric(small, 1e5)}) {
      const Dense input = reference::with_spectrum(rows, cols, sigma, 5);
      for (const char* name : {"polar-express", "keller-jordan", "you"}) {
        const Dense output = run(input, name);
        EXPECT_LT(reference::svd(output).sigma.front(), 1.25) << rows << "x" << cols << " " << name;
        EXPECT_GT(reference::dot(output, input), 0.0) << name;
      }
    }
  }
}

// CASES 17 and 18.
TEST(OrthogonalizeBfloat16, PowersOfTwoChangeNoBitAndZeroGivesZero) {
  if (is_refused()) return;
  NewtonSchulzWorkspace<float> workspace;
  const Strided<float> matrix(reference::gaussian(24, 40, 1));
  const Strided<float> expected(24, 40);
  const NewtonSchulzOptions options = rounded_steps("polar-express");
  orthogonalize<float>(matrix.view(), expected.view(), options, workspace);
  for (const int exponent : {-100, -30, 30, 100}) {
    const Strided<float> scaled(24, 40);
    for (std::int64_t i = 0; i < 24; ++i) {
      for (std::int64_t j = 0; j < 40; ++j)
        scaled(i, j) = std::ldexp(matrix(i, j), exponent);
    }
    orthogonalize<float>(scaled.view(), scaled.view(), options, workspace);
    EXPECT_EQ(scaled.bits(), expected.bits()) << exponent;
  }
  Strided<float> zero(24, 40);
  zero.fill(0.0F);
  EXPECT_EQ(orthogonalize<float>(zero.view(), zero.view(), options, workspace).status, OrthogonalizeStatus::zero);
  zero(3, 5) = std::numeric_limits<float>::infinity();
  EXPECT_EQ(orthogonalize<float>(zero.view(), zero.view(), options, workspace).status, OrthogonalizeStatus::non_finite);
}

TEST(OrthogonalizeBfloat16, FlopsAndWorkspaceEqualTheFormulas) {
  if (is_refused()) return;
  for (const auto& [rows, cols] : std::vector<Extents>{{1, 1}, {1, 13}, {17, 33}, {33, 17}, {21, 21}, {130, 200}}) {
    NewtonSchulzWorkspace<float> workspace;
    const Strided<float> matrix(reference::gaussian(rows, cols, 1), 3);
    const Strided<float> output(rows, cols, 2);
    NewtonSchulzOptions options = rounded_steps("you");
    for (const int steps : {1, 2, 5}) {
      options.steps = steps;
      const OrthogonalizeResult result = orthogonalize<float>(matrix.view(), output.view(), options, workspace);
      EXPECT_EQ(result.flops,
                newton_schulz_flops(rows, cols, steps, NewtonSchulzAlgorithm::automatic, DType::bfloat16));
    }
    EXPECT_EQ(workspace.bytes(),
              newton_schulz_scratch(rows, cols, NewtonSchulzAlgorithm::automatic, 5, DType::bfloat16).bytes());
    EXPECT_TRUE(output.gaps_are_untouched());
    const test::CountAllocations allocations;
    orthogonalize<float>(matrix.view(), matrix.view(), options, workspace);
    EXPECT_EQ(allocations.count(), 0);
    EXPECT_EQ(matrix.bits(), output.bits()) << "in place";
  }
}

TEST(OrthogonalizeBfloat16, OtherAlgorithmsAndTypesAreRefused) {
  const Strided<float> matrix(reference::gaussian(4, 16, 1));
  NewtonSchulzWorkspace<float> workspace;
  NewtonSchulzOptions options = rounded_steps("you");
  options.algorithm = NewtonSchulzAlgorithm::gram;
  EXPECT_TRUE(test::mentions(
      test::message_of<ContractError>([&] { orthogonalize<float>(matrix.view(), matrix.view(), options, workspace); }),
      {"gram", "bfloat16", "standard"}));
  const Strided<double> wide(reference::gaussian(4, 16, 1));
  NewtonSchulzWorkspace<double> wide_workspace;
  EXPECT_THROW(orthogonalize<double>(wide.view(), wide.view(), rounded_steps("you"), wide_workspace), ContractError);
  EXPECT_THROW(newton_schulz_flops(4, 16, 5, NewtonSchulzAlgorithm::gram_no_restart, DType::bfloat16), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
