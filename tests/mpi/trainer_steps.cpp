#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>

#include "apps/train/trainer.hpp"
#include "support/checkpoint_run.hpp"
#include "support/mpi_world.hpp"

/// The training loop's body, from inside: what no run of the program can bring about.
namespace matrixfsdp {
namespace {

using testing::world;

constexpr std::int64_t passes = 2;

/// Untied head: a bad row of the embedding is seen by the sequences that have its token, and by no other.
train::Options options_for(const testing::SharedFolder& folder) {
  train::Options options;
  options.shape = {TransformerStyle::llama, 1, 16, 2, 2, 32, 8, 256, false};
  options.batch_size = passes * world().size();
  options.optimizer.adamw.learning_rate = 1e-3;
  options.data = {folder / "data.txt"};
  testing::on_rank_zero(world(), [&] {
    const CounterRandom random(1, stream_of("data"));
    std::string bytes;
    for (std::uint64_t i = 0; i < 4000; ++i)
      bytes += static_cast<char>(random.below(i, 256));
    std::ofstream(options.data.front(), std::ios::binary).write(bytes.data(), 4000);
  });
  return options;
}

struct SmallRun {
  SmallRun() : folder(world()), options(options_for(folder)), data(world(), options), trainer(world(), options, data) {}

  testing::SharedFolder folder;
  train::Options options;
  train::Data data;
  train::Trainer trainer;
};

TEST(TrainerData, targets_are_the_tokens_that_follow) {
  SmallRun run;
  const train::MicroBatch batch = run.data.training_batch(1, 0, 2);
  ASSERT_EQ(batch.tokens.size(), 16U);
  ASSERT_EQ(batch.targets.size(), 16U);
  for (std::size_t i = 0; i < 16; ++i) {
    if (i % 8 == 7) continue;  // the last of a sequence
    EXPECT_EQ(batch.targets[i], batch.tokens[i + 1]) << i;
  }
  EXPECT_NE(batch.targets, batch.tokens);
}

TEST(TrainerOptions, what_the_command_line_cannot_see_is_checked) {
  train::Options options;
  EXPECT_NO_THROW(validate(options, 1));
  options.resume = "";
  EXPECT_THROW(validate(options, 1), InputError);
  options.resume = "none";
  options.schedule.final_factor = 2;
  EXPECT_THROW(validate(options, 1), InputError);
}

/// A token of micro-batch `index` of the first step that no other of that step has.
std::int32_t token_of_one(const train::Data& data, std::int64_t index, std::int64_t batch_size) {
  std::set<std::int32_t> others;
  for (std::int64_t i = 0; i < batch_size; ++i) {
    if (i == index) continue;
    for (const std::int32_t token : data.training_batch(1, i, 1).tokens)
      others.insert(token);
  }
  for (const std::int32_t token : data.training_batch(1, index, 1).tokens) {
    if (!others.contains(token)) return token;
  }
  throw ContractError("every token of the sequence is in others too");
}

/// Writes one element of the embedding where it lives; returns what was there on the rank that has it.
float exchange(ShardedModel& model, std::int64_t element, float value) {
  float before = 0;
  for (const ParameterView& view : model.trainable()) {
    if (view.spec->name != "token_embedding" || element < view.elements.begin || element >= view.elements.end) continue;
    float& place = view.weight(static_cast<std::size_t>(element - view.elements.begin));
    before = place;
    place = value;
  }
  model.weights_changed();
  return before;
}

std::vector<float> weights_of(const ShardedModel& model) {
  std::vector<float> all;
  for (const ParameterView& view : model.trainable())
    all.insert(all.end(), view.weight.data(), view.weight.data() + view.weight.size());
  return all;
}

// CASES 30: only the first micro-batch of the last rank is bad. All skip, nothing moves, and AdamW has taken no step:
// the next one is its first, which moves every element by the learning rate.
TEST(Trainer, a_step_that_one_rank_cannot_take_is_taken_by_none) {
  SmallRun run;
  ShardedModel& model = run.trainer.replica().model;
  const std::int32_t token = token_of_one(run.data, world().size() - 1, run.options.batch_size);
  const std::int64_t element = std::int64_t{token} * run.options.shape.hidden;
  const float before = exchange(model, element, std::numeric_limits<float>::infinity());
  const std::vector<float> untouched = weights_of(model);

  const train::StepMetrics bad = run.trainer.step();
  EXPECT_TRUE(bad.skipped);
  EXPECT_EQ(bad.matrices, 0);
  EXPECT_EQ(weights_of(model), untouched);
  EXPECT_EQ(run.trainer.steps_done(), 1);
  EXPECT_EQ(run.trainer.steps_taken(), 0);

  exchange(model, element, before);
  const train::StepMetrics good = run.trainer.step();
  EXPECT_FALSE(good.skipped);
  EXPECT_TRUE(std::isfinite(good.loss));
  EXPECT_EQ(run.trainer.steps_done(), 2);
  EXPECT_EQ(run.trainer.steps_taken(), 1);
  const double moved = run.options.schedule.factor(2) * run.options.optimizer.adamw.learning_rate;
  for (const ParameterView& view : model.trainable()) {
    if (view.spec->name != "final_norm.weight") continue;
    for (std::size_t i = 0; i < view.weight.size(); ++i)
      EXPECT_NEAR(std::fabs(view.weight(i) - 1.0F), moved, 0.02 * moved) << i;
  }
}

}  // namespace
}  // namespace matrixfsdp
