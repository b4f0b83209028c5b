#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>

#include "support/specs.hpp"
#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

using Algorithm = NewtonSchulzAlgorithm;

/// Bytes of one slot of a batch: two X, two or four small matrices, sums, and what its kernels know.
std::int64_t slot_bytes(std::int64_t m, std::int64_t n, std::int64_t small_matrices) {
  return 4 * (2 * m * n + small_matrices * m * m) + 8 * square_sum_blocks(m, n) + 96;
}

// As many as fill 128 tiles of 128 x 128 with one m x m product each, and 64 MiB.
TEST(NewtonSchulzBatch, GoesByTheShape) {
  struct Expected {
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t standard;
  };
  for (const Expected& e : std::vector<Expected>{{1, 1, 128},
                                                 {128, 128, 128},
                                                 {129, 129, 32},
                                                 {256, 256, 32},
                                                 {768, 768, 3},
                                                 {768, 3072, 2},  // 72 MiB would be three
                                                 {1024, 1024, 2},
                                                 {1024, 4096, 1},
                                                 {1025, 1025, 1},
                                                 {4096, 4096, 1},
                                                 {2, 800000, 5},
                                                 {1, 8000000, 1},
                                                 {0, 5, 1}}) {
    EXPECT_EQ(newton_schulz_batch(e.rows, e.cols, 5, Algorithm::standard), e.standard) << e.rows << "x" << e.cols;
    EXPECT_EQ(newton_schulz_batch(e.cols, e.rows, 5, Algorithm::standard), e.standard) << "transposed";
  }
  EXPECT_EQ(newton_schulz_batch(std::int64_t{1} << 40, std::int64_t{1} << 21, 5, Algorithm::standard), 1);
  EXPECT_THROW(newton_schulz_batch(-1, 2, 5, Algorithm::standard), ContractError);
  EXPECT_THROW(newton_schulz_batch(2, 2, 0, Algorithm::standard), ContractError);
}

TEST(NewtonSchulzBatch, FitsAndOneMoreSlotWouldNotOrWouldNotBeNeeded) {
  for (std::int64_t m = 1; m < 1100; m += 37) {
    for (const std::int64_t n : {m, 2 * m, 7 * m + 1, 9000 + m}) {
      for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram}) {
        const std::int64_t slots = newton_schulz_batch(m, n, 5, algorithm);
        const std::int64_t tiles = ((m + 127) / 128) * ((m + 127) / 128);
        const std::int64_t one = slot_bytes(m, n, algorithm == Algorithm::standard ? 2 : 4);
        if (slots > 1) {
          EXPECT_EQ(newton_schulz_scratch(m, n, algorithm, 5, DType::float32, slots).bytes(), slots * one);
          EXPECT_LE(slots * one, newton_schulz_batch_bytes);
          EXPECT_LE(slots * tiles, 128);
        }
        EXPECT_TRUE((slots + 1) * one > newton_schulz_batch_bytes || (slots + 1) * tiles > 128) << m << "x" << n;
      }
    }
  }
}

TEST(NewtonSchulzBatch, CountsInScratchAndFlops) {
  OptimizerCost cost;
  cost.algorithm = Algorithm::standard;
  cost.newton_schulz_steps = 3;
  const ParameterSpec small = test::parameter("small", {256, 300});
  const ParameterSpec large = test::parameter("large", {1200, 1200});
  ParameterSpec fused = test::parameter("fused", {600, 200});
  fused.blocks.axis = 0;
  fused.blocks.sizes = {200, 200, 200};
  fused.blocks.names = {"q", "k", "v"};
  for (const ParameterSpec* spec : std::vector<const ParameterSpec*>{&small, &large, &fused})
    EXPECT_EQ(stepped_together(*spec, cost), 1);
  const std::int64_t alone = step_flops(small, cost);
  const std::int64_t large_alone = step_flops(large, cost);
  cost.batches = true;
  EXPECT_EQ(stepped_together(small, cost), 32);
  EXPECT_EQ(stepped_together(large, cost), 1);
  EXPECT_EQ(stepped_together(fused, cost), 32 / 3);
  EXPECT_EQ(step_flops(small, cost) - alone,
            newton_schulz_flops(256, 300, 3, Algorithm::standard, DType::float32, true) -
                newton_schulz_flops(256, 300, 3, Algorithm::standard));
  EXPECT_GT(step_flops(small, cost), alone);
  EXPECT_EQ(step_flops(large, cost), large_alone);
  const std::int64_t directions = 4 * std::max<std::int64_t>(32 * 256 * 300, 10 * 600 * 200);
  EXPECT_EQ(matrix_scratch_bytes({&small, &fused}, cost), directions + 32 * slot_bytes(256, 300, 2));
  EXPECT_EQ(matrix_scratch_bytes({&large}, cost), 4 * 4 * 1200 * 1200 + 8 * square_sum_blocks(1200, 1200));
  cost.matrices = MatrixOptimizer::soap;
  EXPECT_EQ(stepped_together(small, cost), 1);
}

}  // namespace
}  // namespace matrixfsdp
