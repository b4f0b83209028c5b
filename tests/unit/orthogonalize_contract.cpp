#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "support/count_allocations.hpp"
#include "support/matrices.hpp"

namespace matrixfsdp {
namespace {

using reference::Dense;
using test::Strided;
using Algorithm = NewtonSchulzAlgorithm;

const std::vector<Algorithm> algorithms{Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart,
                                        Algorithm::automatic};

TEST(OrthogonalizeContract, FlopsEqualTheFormula) {
  NewtonSchulzWorkspace<float> workspace;
  for (const auto& [rows, cols] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 13}, {13, 1}, {17, 33}, {33, 17}, {21, 21}, {30, 45}, {29, 45}}) {
    const Strided<float> matrix(reference::gaussian(rows, cols, 1));
    const Strided<float> output(rows, cols);
    for (const Algorithm algorithm : algorithms) {
      for (int steps = 1; steps <= 10; ++steps) {
        const OrthogonalizeResult result =
            orthogonalize<float>(matrix.view(), output.view(), {algorithm, nullptr, steps}, workspace);
        EXPECT_EQ(result.flops, newton_schulz_flops(rows, cols, steps, algorithm))
            << rows << "x" << cols << " " << name_of(algorithm) << " " << steps;
        EXPECT_EQ(result.algorithm, resolve(algorithm, rows, cols, steps));
      }
    }
  }
}

// Written out once by hand, so that the formula and the kernels cannot be wrong together.
TEST(OrthogonalizeContract, FlopsOfAKnownShape) {
  NewtonSchulzWorkspace<float> workspace;
  const Strided<float> matrix(reference::gaussian(4, 16, 1));
  const Strided<float> output(4, 16);
  const auto flops = [&](Algorithm algorithm, int steps) {
    return orthogonalize<float>(matrix.view(), output.view(), {algorithm, nullptr, steps}, workspace).flops;
  };
  const std::int64_t gram = 4 * 5 * 16;      // X X^T, one triangle
  const std::int64_t square = 4 * 5 * 4;     // R R
  const std::int64_t small = 2 * 4 * 4 * 4;  // of two small matrices
  const std::int64_t apply = 2 * 4 * 4 * 16;
  EXPECT_EQ(flops(Algorithm::standard, 5), 5 * (gram + square + apply));
  EXPECT_EQ(flops(Algorithm::gram_no_restart, 5), gram + apply + 5 * square + 4 * small + 4 * 2 * small);
  EXPECT_EQ(flops(Algorithm::gram, 5), 2 * (gram + apply) + 5 * square + 3 * small + 3 * 2 * small);
  EXPECT_EQ(flops(Algorithm::gram, 2), gram + apply + 2 * square + small + 2 * small);
  EXPECT_EQ(flops(Algorithm::gram, 1), gram + square + apply);
}

TEST(OrthogonalizeContract, ResidualIsThatOfTheResult) {
  NewtonSchulzWorkspace<double> workspace;
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{1, 1}, {1, 13}, {17, 33}, {33, 17}, {21, 21}}) {
    const Strided<double> matrix(reference::gaussian(rows, cols, 1));
    const Strided<double> output(rows, cols);
    NewtonSchulzOptions options;
    EXPECT_TRUE(std::isnan(orthogonalize<double>(matrix.view(), output.view(), options, workspace).residual));
    options.measure_residual = true;
    const OrthogonalizeResult result = orthogonalize<double>(matrix.view(), output.view(), options, workspace);
    EXPECT_EQ(result.flops, newton_schulz_flops(rows, cols, options.steps, options.algorithm));
    const reference::Dense o = output.dense();
    const reference::Dense t = reference::transpose(o);
    const reference::Dense gram = rows > cols ? reference::multiply(t, o) : reference::multiply(o, t);
    double sum = 0;
    for (std::int64_t i = 0; i < gram.rows; ++i) {
      for (std::int64_t j = 0; j < gram.rows; ++j)
        sum += std::pow(gram(i, j) - (i == j ? 1.0 : 0.0), 2);
    }
    EXPECT_NEAR(result.residual, std::sqrt(sum / static_cast<double>(gram.rows)), 1e-12) << rows << "x" << cols;
  }
}

TEST(OrthogonalizeContract, InPlaceHasTheSameBits) {
  NewtonSchulzWorkspace<float> workspace;
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{18, 40}, {40, 18}, {25, 25}}) {
    for (const Algorithm algorithm : algorithms) {
      for (const int steps : {1, 2, 5, 6}) {
        const Strided<float> matrix(reference::gaussian(rows, cols, 2), 3);
        const std::string input = matrix.bits();
        const Strided<float> output(rows, cols, 3);
        orthogonalize<float>(matrix.view(), output.view(), {algorithm, nullptr, steps}, workspace);
        EXPECT_EQ(matrix.bits(), input) << "the input changed";
        orthogonalize<float>(matrix.view(), matrix.view(), {algorithm, nullptr, steps}, workspace);
        EXPECT_EQ(matrix.bits(), output.bits()) << rows << "x" << cols << " " << name_of(algorithm) << " " << steps;
        EXPECT_TRUE(matrix.gaps_are_untouched());
      }
    }
  }
}

// CASES 14: a block of columns or rows inside a larger matrix gives the bits that it gives alone.
TEST(OrthogonalizeContract, StrideChangesNoBit) {
  NewtonSchulzWorkspace<float> workspace;
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{18, 40}, {41, 19}, {25, 25}, {1, 30}, {30, 1}}) {
    const Dense input = reference::gaussian(rows, cols, 3);
    for (const Algorithm algorithm : algorithms) {
      for (const int steps : {4, 5}) {
        const Strided<float> alone(input);
        const Strided<float> inside(input, 13);
        orthogonalize<float>(alone.view(), alone.view(), {algorithm, nullptr, steps}, workspace);
        orthogonalize<float>(inside.view(), inside.view(), {algorithm, nullptr, steps}, workspace);
        EXPECT_EQ(inside.bits(), alone.bits()) << rows << "x" << cols << " " << name_of(algorithm) << " " << steps;
        EXPECT_TRUE(inside.gaps_are_untouched());
      }
    }
  }
}

// CASES 22
TEST(OrthogonalizeContract, WorkspaceGrowsOnlyAndIsCounted) {
  NewtonSchulzWorkspace<float> workspace;
  EXPECT_EQ(workspace.bytes(), 0);
  workspace.reserve(12, 20, {Algorithm::standard});
  EXPECT_EQ(workspace.bytes(), 4 * (12 * 20 + 2 * 12 * 12) + 8);
  workspace.reserve(20, 12, {Algorithm::gram});
  EXPECT_EQ(workspace.bytes(), 4 * (12 * 20 + 4 * 12 * 12) + 8);
  workspace.reserve(3, 5000, {Algorithm::automatic});
  EXPECT_EQ(workspace.bytes(), 4 * (15000 + 4 * 12 * 12) + 8 * 6);
  workspace.reserve(2, 2, {Algorithm::standard});
  EXPECT_EQ(workspace.bytes(), 4 * (15000 + 4 * 12 * 12) + 8 * 6);
}

TEST(OrthogonalizeContract, SecondCallAllocatesNothing) {
  NewtonSchulzWorkspace<float> workspace;
  for (const Algorithm algorithm : algorithms) {
    const Strided<float> matrix(reference::gaussian(30, 70, 4));
    const Strided<float> output(30, 70);
    orthogonalize<float>(matrix.view(), output.view(), {algorithm, nullptr, 5}, workspace);
    const std::int64_t bytes = workspace.bytes();
    const test::CountAllocations allocations;
    orthogonalize<float>(matrix.view(), output.view(), {algorithm, nullptr, 5}, workspace);
    EXPECT_EQ(allocations.count(), 0) << name_of(algorithm);
    EXPECT_EQ(workspace.bytes(), bytes);
    const Tensor<float> counted = make_tensor<float>("counted", 8);
    EXPECT_EQ(allocations.count(), 1) << "the counter does not count";
  }
}

TEST(OrthogonalizeContract, EmptyMatricesDoNothing) {
  NewtonSchulzWorkspace<float> workspace;
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{0, 0}, {0, 5}, {5, 0}}) {
    const Strided<float> empty(rows, cols);
    const OrthogonalizeResult result = orthogonalize<float>(empty.view(), empty.view(), {}, workspace);
    EXPECT_EQ(result.status, OrthogonalizeStatus::zero);
    EXPECT_EQ(result.flops, 0);
  }
}

TEST(OrthogonalizeContract, BrokenPreconditionsThrow) {
  NewtonSchulzWorkspace<float> workspace;
  const Strided<float> a(reference::gaussian(4, 6, 5));
  const Strided<float> b(6, 4);
  const auto call = [&](MatrixView<float> in, MatrixView<float> out, const NewtonSchulzOptions& options) {
    orthogonalize<float>(in, out, options, workspace);
  };
  EXPECT_THROW(call(a.view(), b.view(), {}), ContractError);
  EXPECT_THROW(call(a.view(), a.view(), {Algorithm::standard, nullptr, 0}), ContractError);
  const MatrixView<float> other_stride(a.view().data, 4, 3, 5);
  EXPECT_THROW(call(a.view().col_block(0, 3), other_stride, {}), ContractError);
  const QuinticSequence none{"none", {}, 5};
  EXPECT_THROW(call(a.view(), a.view(), {Algorithm::standard, &none, 5}), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
