#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

using Algorithm = NewtonSchulzAlgorithm;

constexpr Algorithm algorithms[] = {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart,
                                    Algorithm::automatic};

/// Entries of a symmetric product that are computed: halves of the diagonal, down to 96.
std::int64_t triangle(std::int64_t m) {
  return m <= 96 ? m * m : triangle(m / 2) + (m / 2) * (m - m / 2) + triangle(m - m / 2);
}

/// Counts by walking through the iteration, product by product.
std::int64_t walk(std::int64_t m, std::int64_t n, int steps, Algorithm algorithm, bool batched = false) {
  std::int64_t flops = 0;
  const auto syrk = [&](std::int64_t rows, std::int64_t inner) {
    flops += rows * (batched ? 2 * rows : rows + 1) * inner;
  };
  const auto gemm = [&](std::int64_t a, std::int64_t b, std::int64_t c) { flops += 2 * a * b * c; };
  const auto symmetric = [&](std::int64_t rows) { flops += 2 * rows * (batched ? rows * rows : triangle(rows)); };
  if (algorithm == Algorithm::standard) {
    for (int step = 1; step <= steps; ++step) {
      syrk(m, n);
      syrk(m, m);
      gemm(m, m, n);
    }
    return flops;
  }
  const auto restart_before = [&](int step) { return algorithm == Algorithm::gram && steps > 2 && step == 3; };
  bool identity = true;
  syrk(m, n);
  for (int step = 1; step <= steps; ++step) {
    if (restart_before(step)) {
      gemm(m, m, n);
      syrk(m, n);
      identity = true;
    }
    syrk(m, m);                   // Z
    if (!identity) symmetric(m);  // Q
    identity = false;
    if (step < steps && !restart_before(step + 1)) {
      symmetric(m);  // R Z
      symmetric(m);  // Z R Z
    }
  }
  gemm(m, m, n);
  return flops;
}

TEST(NewtonSchulzCost, equals_the_walk_through_the_iteration) {
  for (const auto& [m, n] : std::vector<std::pair<int, int>>{
           {1, 1}, {1, 9}, {7, 7}, {7, 10}, {7, 11}, {64, 300}, {97, 300}, {386, 700}, {1000, 1500}}) {
    for (int steps = 1; steps <= 9; ++steps) {
      for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
        const std::int64_t expected = walk(m, n, steps, algorithm);
        EXPECT_EQ(newton_schulz_flops(m, n, steps, algorithm), expected) << m << " " << n << " " << steps;
        EXPECT_EQ(newton_schulz_flops(n, m, steps, algorithm), expected) << "transposed";
        EXPECT_EQ(newton_schulz_flops(n, m, steps, algorithm, DType::float32, true),
                  walk(m, n, steps, algorithm, true));
      }
    }
  }
}

// By hand, 2 x 3: X X^T 2*3*3 = 18, R R 2*3*2 = 12, small product 16, apply 2*2*2*3 = 24.
TEST(NewtonSchulzCost, by_hand) {
  EXPECT_EQ(newton_schulz_flops(2, 3, 1, Algorithm::standard), 18 + 12 + 24);
  EXPECT_EQ(newton_schulz_flops(3, 2, 5, Algorithm::standard), 5 * 54);
  EXPECT_EQ(newton_schulz_flops(2, 3, 1, Algorithm::gram), 54);
  EXPECT_EQ(newton_schulz_flops(2, 3, 2, Algorithm::gram), 18 + 24 + 2 * 12 + 3 * 16);
  EXPECT_EQ(newton_schulz_flops(2, 3, 3, Algorithm::gram), (18 + 24 + 2 * 12 + 3 * 16) + 54);
  EXPECT_EQ(newton_schulz_flops(2, 3, 3, Algorithm::gram_no_restart), 18 + 24 + 3 * 12 + 6 * 16);
  EXPECT_EQ(newton_schulz_flops(1, 5, 1, Algorithm::standard), 10 + 2 + 10);
  // A symmetric product of 97: 48 x 48 and 49 x 49 on the diagonal, 49 x 48 below.
  const std::int64_t symmetric = 2 * 97 * (48 * 48 + 49 * 48 + 49 * 49);
  EXPECT_EQ(newton_schulz_flops(97, 97, 2, Algorithm::gram) - newton_schulz_flops(97, 97, 1, Algorithm::gram),
            97 * 98 * 97 + 3 * symmetric);
}

TEST(NewtonSchulzCost, automatic_takes_gram_from_one_and_a_half) {
  EXPECT_EQ(resolve(Algorithm::automatic, 30, 45), Algorithm::gram);
  EXPECT_EQ(resolve(Algorithm::automatic, 45, 30), Algorithm::gram);
  EXPECT_EQ(resolve(Algorithm::automatic, 30, 44), Algorithm::standard);
  EXPECT_EQ(resolve(Algorithm::automatic, 29, 43), Algorithm::standard);  // 43.5
  EXPECT_EQ(resolve(Algorithm::automatic, 29, 44), Algorithm::gram);
  EXPECT_EQ(resolve(Algorithm::automatic, 1, 1), Algorithm::standard);
  EXPECT_EQ(resolve(Algorithm::automatic, 1, 2), Algorithm::gram);
  EXPECT_EQ(resolve(Algorithm::automatic, INT64_MAX, INT64_MAX), Algorithm::standard);
  EXPECT_EQ(resolve(Algorithm::gram_no_restart, 30, 30), Algorithm::gram_no_restart);
  EXPECT_EQ(resolve(Algorithm::automatic, 30, 90, 8), Algorithm::gram);
  EXPECT_EQ(resolve(Algorithm::automatic, 30, 90, 9), Algorithm::standard);  // one restart is not enough
  EXPECT_EQ(newton_schulz_flops(30, 90, 9, Algorithm::automatic), newton_schulz_flops(30, 90, 9, Algorithm::standard));
  EXPECT_EQ(newton_schulz_flops(30, 45, 5, Algorithm::automatic), newton_schulz_flops(30, 45, 5, Algorithm::gram));
  EXPECT_EQ(newton_schulz_flops(30, 30, 5, Algorithm::automatic), newton_schulz_flops(30, 30, 5, Algorithm::standard));
}

TEST(NewtonSchulzCost, degenerate_and_huge) {
  for (const Algorithm algorithm : algorithms) {
    EXPECT_EQ(newton_schulz_flops(0, 8, 5, algorithm), 0);
    EXPECT_EQ(newton_schulz_flops(8, 0, 5, algorithm), 0);
    EXPECT_GT(newton_schulz_flops(1, 1000, 5, algorithm), 0);
    EXPECT_THROW(newton_schulz_flops(4, 4, 0, algorithm), ContractError);
    EXPECT_THROW(newton_schulz_flops(-4, 4, 5, algorithm), ContractError);
    EXPECT_THROW(newton_schulz_flops(1 << 30, 1 << 30, 5, algorithm), InputError);
  }
}

TEST(NewtonSchulzCost, names) {
  const char* names[] = {"standard", "gram", "gram-no-restart", "auto"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(name_of(algorithms[i]), names[i]);
    EXPECT_EQ(parse_newton_schulz_algorithm(names[i]), algorithms[i]);
  }
  const std::string message = test::message_of<InputError>([] { parse_newton_schulz_algorithm("automatic"); });
  EXPECT_NE(message.find("'automatic'"), std::string::npos) << message;
  EXPECT_NE(message.find("gram-no-restart"), std::string::npos) << message;
}

TEST(StepCost, sums_over_the_parts_of_a_matrix) {
  const OptimizerCost cost;
  ParameterSpec qkv = test::parameter("qkv", {12, 4});
  EXPECT_EQ(step_flops(qkv, cost), 6 * 48 + newton_schulz_flops(12, 4, 5, Algorithm::gram));
  qkv.blocks = {0, {"q", "k", "v"}, {8, 2, 2}};
  EXPECT_EQ(step_flops(qkv, cost),
            6 * 48 + newton_schulz_flops(8, 4, 5, Algorithm::gram) + 2 * newton_schulz_flops(2, 4, 5, Algorithm::gram));
  EXPECT_EQ(step_flops(test::parameter("experts", {3, 5, 6}), cost),
            6 * 90 + 3 * newton_schulz_flops(5, 6, 5, Algorithm::standard));
  OptimizerCost other;
  other.algorithm = Algorithm::standard;
  other.newton_schulz_steps = 8;
  EXPECT_EQ(step_flops(test::parameter("w", {4, 12}), other), 6 * 48 + walk(4, 12, 8, Algorithm::standard));
}

TEST(StepCost, tails_frozen_and_adamw) {
  const OptimizerCost muon;
  OptimizerCost adamw;
  adamw.matrices = MatrixOptimizer::adamw;
  const ParameterSpec matrix = test::parameter("w", {4, 5});
  const ParameterSpec tail = test::parameter("b", {20});
  EXPECT_EQ(step_flops(tail, muon), 240);
  EXPECT_EQ(step_flops(matrix, adamw), 240);
  EXPECT_EQ(state_bytes(matrix, 20, muon), 80);
  EXPECT_EQ(state_bytes(tail, 1, muon), 8);
  EXPECT_EQ(state_bytes(matrix, 20, adamw), 160);
  EXPECT_EQ(resident_bytes(matrix, 20, muon), 240);
  EXPECT_EQ(resident_bytes(tail, 1, muon), 16);
  EXPECT_EQ(resident_bytes(matrix, 20, adamw), 320);
  for (const Shape& shape : {Shape{4, 5}, Shape{20}}) {
    const ParameterSpec frozen = test::frozen("f", shape);
    EXPECT_EQ(step_flops(frozen, muon), 0);
    EXPECT_EQ(state_bytes(frozen, 20, muon), 0);
    EXPECT_EQ(resident_bytes(frozen, 20, muon), 80) << "the weight only";
  }
  EXPECT_EQ(step_flops(test::parameter("empty", {0, 8}), muon), 0);
}

}  // namespace
}  // namespace matrixfsdp
