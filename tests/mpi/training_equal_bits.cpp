#include <limits>

#include <gtest/gtest.h>

#include "support/equal_bits.hpp"
#include "support/parts_of_world.hpp"
#include "support/training_loop.hpp"

/// The same global batch gives the same bits on any number of ranks, under any plan: every rank also runs the model
/// alone, on a communicator of its own, and compares all losses, norms and weights.
namespace matrixfsdp {
namespace {

using testing::equal_bits;
using testing::run_training;
using testing::Training;
using testing::training_of;
using testing::TrainingResult;
using testing::world;

TransformerShape shape_of(TransformerStyle style) {
  return {.style = style,
          .layers = 3,
          .hidden = 36,
          .heads = 6,
          .kv_heads = style == TransformerStyle::gpt2 ? 6 : 3,
          .ffn = 52,
          .sequence_length = 9,
          .vocabulary = 173,  // the embedding is cut into norm blocks
          .tied_head = style == TransformerStyle::gpt2};
}

/// Everything on that could see an order: clipping, decay, a schedule, 12 micro-batches.
Training training_for(TransformerStyle style) {
  Training training = training_of(shape_of(style));
  training.optimizer.muon.weight_decay = 0.1;
  training.optimizer.adamw.weight_decay = 0.1;
  training.optimizer.adamw.learning_rate = 3e-3;
  training.schedule.kind = ScheduleKind::cosine;
  training.schedule.total_steps = 8;
  training.schedule.warmup_steps = 2;
  training.max_norm = 0.5;
  return training;
}

constexpr std::int64_t steps = 6;

TrainingResult run_alone(const Training& training) {
  Communicator alone = testing::alone();
  return run_training(alone, training, make_plan(training.spec, 1), steps);
}

TrainingResult run_together(const Training& training, const PlannerOptions& planner = {}) {
  return run_training(world(), training, make_plan(training.spec, world().size(), planner), steps);
}

class TrainingBits : public ::testing::TestWithParam<TransformerStyle> {};

// CASES 10, 26, 27: one orthogonalization and one norm per step, whatever the number of passes and ranks.
TEST_P(TrainingBits, every_policy_equals_one_rank) {
  const Training training = training_for(GetParam());
  const TrainingResult alone = run_alone(training);
  for (const Policy policy : {Policy::role, Policy::scope, Policy::cost, Policy::balanced}) {
    for (const TailPlacement tails : {TailPlacement::packed, TailPlacement::spread}) {
      PlannerOptions planner;
      planner.policy = policy;
      planner.tails = tails;
      EXPECT_TRUE(equal_bits(run_together(training, planner), alone)) << name_of(policy);
    }
  }
}

TEST_P(TrainingBits, a_replicated_plan_equals_one_rank) {
  const Training training = training_for(GetParam());
  EXPECT_TRUE(equal_bits(run_training(world(), training, make_replicated_plan(training.spec, world().size()), steps),
                         run_alone(training)));
}

TEST_P(TrainingBits, adamw_for_everything_equals_one_rank) {
  Training training = training_for(GetParam());
  training.optimizer.matrices = MatrixOptimizer::adamw;
  EXPECT_TRUE(equal_bits(run_together(training), run_alone(training)));
}

TEST_P(TrainingBits, prefetch_and_recomputation_change_nothing) {
  const Training training = training_for(GetParam());
  const TrainingResult alone = run_alone(training);
  for (const int prefetch : {0, 2, 5}) {
    Training other = training;
    other.prefetch = prefetch;
    other.recompute = true;
    EXPECT_TRUE(equal_bits(run_together(other), alone)) << "prefetch " << prefetch;
  }
}

// CASES 11: the number of matrices is that of the model at any W: the blocks of fused matrices count one by one.
TEST_P(TrainingBits, every_matrix_is_orthogonalized_once_per_step) {
  const Training training = training_for(GetParam());
  for (const testing::StepRecord& step : run_together(training).steps) {
    const std::int64_t matrices = testing::sum_over_ranks(step.matrices);
    EXPECT_EQ(matrices, matrix_count(training.spec));
    EXPECT_EQ(matrices, 3 * (GetParam() == TransformerStyle::gpt2 ? 6 : 7));
  }
}

// CASES 9: a gradient that is large on one rank only is in the sum before anything is orthogonalized.
TEST_P(TrainingBits, one_large_micro_batch) {
  Training training = training_for(GetParam());
  training.weight = [](std::int64_t /*step*/, std::int64_t index) { return index == 7 ? 1000.0F : 1.0F; };
  const TrainingResult large = run_together(training);
  EXPECT_TRUE(equal_bits(large, run_alone(training)));
  training.weight = nullptr;
  const TrainingResult plain = run_together(training);
  EXPECT_GT(large.steps[0].norm, 20.0 * plain.steps[0].norm);
}

// CASES 34: ranks without any gradient take part. Only the first micro-batch counts; the rest adds zeros.
TEST_P(TrainingBits, one_micro_batch_with_a_gradient) {
  Training training = training_for(GetParam());
  training.weight = [](std::int64_t /*step*/, std::int64_t index) { return index == 0 ? 1.0F : 0.0F; };
  const TrainingResult result = run_together(training);
  EXPECT_TRUE(equal_bits(result, run_alone(training)));
  EXPECT_GT(result.steps[0].norm, 0.0);
}

// CASES 30: one rank's bad gradient makes all ranks skip the step, and all go on alike.
TEST_P(TrainingBits, a_bad_step_is_skipped_by_all) {
  Training training = training_for(GetParam());
  training.weight = [](std::int64_t step, std::int64_t index) {
    return step == 3 && index == 11 ? std::numeric_limits<float>::infinity() : 1.0F;
  };
  const TrainingResult result = run_together(training);
  EXPECT_TRUE(equal_bits(result, run_alone(training)));
  for (std::size_t i = 0; i < result.steps.size(); ++i)
    EXPECT_EQ(result.steps[i].skipped, i == 2) << "step " << i + 1;
  for (const auto& [name, values] : result.parameters) {
    for (const float value : values)
      ASSERT_TRUE(std::isfinite(value)) << name;
  }
}

// What the comparisons above compare can differ: one sequence moved to another place of the same global batch changes
// nothing but the order of sums.
TEST_P(TrainingBits, another_order_of_micro_batches_shows) {
  const Training training = training_for(GetParam());
  testing::TrainingLoop loop(world(), training, make_plan(training.spec, world().size()));
  TrainingResult moved;
  for (std::int64_t step = 1; step <= steps; ++step) {
    testing::Batch batch = testing::batch_of(training, step);
    std::swap(batch[0], batch[7]);
    moved.steps.push_back(loop.step(batch));
  }
  moved.parameters = loop.parameters();
  const TrainingResult plain = run_together(training);
  EXPECT_NEAR(moved.steps[0].loss, plain.steps[0].loss, 1e-9);
  EXPECT_FALSE(equal_bits(moved, plain));
}

INSTANTIATE_TEST_SUITE_P(styles, TrainingBits, ::testing::Values(TransformerStyle::gpt2, TransformerStyle::llama),
                         [](const auto& style) { return std::string(name_of(style.param)); });

}  // namespace
}  // namespace matrixfsdp
