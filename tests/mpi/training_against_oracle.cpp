#include <cmath>

#include <gtest/gtest.h>

#include "support/mpi_world.hpp"
#include "support/training_oracle.hpp"

/// Whole runs of the library in float32 against a trainer in double that shares no line with it.
namespace matrixfsdp {
namespace {

using testing::StepRecord;
using testing::Training;
using testing::training_of;
using testing::TrainingLoop;
using testing::world;

constexpr std::int64_t steps = 50;
constexpr std::size_t early_steps = 10;

/// Largest differences that float32 may make: relative for losses and norms, absolute for weights, which are of
/// order 1. Ten times the largest of the runs below at W = 1 to 4 with five different kernels of the BLAS (in
/// brackets).
constexpr double early_loss_tolerance = 1e-7;  // [1.3e-8]
constexpr double loss_tolerance = 2e-6;        // [2.2e-7]
constexpr double early_norm_tolerance = 3e-6;  // [3.3e-7]
constexpr double norm_tolerance = 1.2e-5;      // [1.4e-6]
constexpr double weight_tolerance = 1e-5;      // [1.2e-6]

TransformerShape gpt2_shape() {
  return {.style = TransformerStyle::gpt2,
          .layers = 2,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 64,
          .sequence_length = 16,
          .vocabulary = 64,
          .tied_head = true};
}

TransformerShape llama_shape() {
  TransformerShape shape = gpt2_shape();
  shape.style = TransformerStyle::llama;
  shape.kv_heads = 2;
  shape.ffn = 44;
  shape.vocabulary = 61;
  shape.tied_head = false;
  return shape;
}

Schedule schedule_of(ScheduleKind kind) {
  Schedule schedule;
  schedule.kind = kind;
  schedule.total_steps = steps;
  schedule.warmup_steps = 5;
  return schedule;
}

/// Clipping of some steps, decay everywhere, 12 micro-batches and hence several passes. Muon's default learning rate of
/// 0.02 is near the edge of stability here, where differences grow by themselves; half of it is not.
Training training_for(const TransformerShape& shape, ScheduleKind schedule) {
  Training training = training_of(shape);
  training.optimizer.muon.learning_rate = 0.01;
  training.optimizer.muon.weight_decay = 0.1;
  training.optimizer.adamw.weight_decay = 0.1;
  training.optimizer.adamw.learning_rate = 1e-3;
  training.schedule = schedule_of(schedule);
  training.max_norm = 1.0;
  return training;
}

ParameterSpec& parameter(Training& training, const std::string& name) {
  for (UnitSpec& unit : training.spec.units) {
    for (ParameterSpec& spec : unit.parameters) {
      if (spec.name == name) return spec;
    }
  }
  throw ContractError("no parameter " + name);
}

/// Softmax does not see what all its inputs have in common, so a key bias has no gradient but rounding, which AdamW
/// makes steps of (each at most 1.2 times the learning rate); nothing else sees those.
bool is_key_bias(const TransformerShape& shape, const std::string& name, std::size_t element) {
  const auto at = static_cast<std::int64_t>(element);
  return name.ends_with("qkv_bias") && at >= shape.hidden &&
         at < shape.hidden + shape.kv_heads * shape.head_dimension();
}

void expect_same_on_every_rank(const std::vector<StepRecord>& records) {
  for (const StepRecord& record : records) {
    for (const StepRecord& other : all_gather_value(world(), Purpose::other, record, {"test", "", ""})) {
      EXPECT_EQ(other.loss, record.loss);
      EXPECT_EQ(other.norm, record.norm);
    }
  }
}

void expect_near_oracle(const Training& training, Policy policy) {
  PlannerOptions planner;
  planner.policy = policy;
  TrainingLoop loop(world(), training, make_plan(training.spec, world().size(), planner));
  const auto initial = loop.parameters();
  std::vector<StepRecord> records;
  for (std::int64_t step = 1; step <= steps; ++step)
    records.push_back(loop.step(batch_of(training, step)));
  const auto trained = loop.parameters();
  expect_same_on_every_rank(records);  // CASES 27
  if (world().rank() != 0) return;

  oracle::Trainer trainer(testing::oracle_model(training.shape), testing::oracle_options(training),
                          testing::oracle_parameters(training.shape, initial));
  std::size_t clipped = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const oracle::StepResult expected = trainer.step(batch_of(training, static_cast<std::int64_t>(i + 1)),
                                                     static_cast<std::size_t>(training.micro_batch));
    const bool early = i < early_steps;
    ASSERT_NEAR(records[i].loss, expected.loss, (early ? early_loss_tolerance : loss_tolerance) * expected.loss)
        << "step " << i + 1;
    ASSERT_NEAR(records[i].norm, expected.grad_norm,
                (early ? early_norm_tolerance : norm_tolerance) * expected.grad_norm)
        << "step " << i + 1;
    clipped += training.max_norm > 0.0 && expected.grad_norm > training.max_norm ? 1 : 0;
  }
  if (training.max_norm > 0.0) {
    EXPECT_TRUE(clipped > 0 && clipped < records.size()) << clipped << " steps clipped";
  }
  EXPECT_LT(records.back().loss, 0.95 * records.front().loss);
  ASSERT_EQ(trained.size(), trainer.parameters().size());
  for (const auto& [name, expected] : trainer.parameters()) {
    for (std::size_t i = 0; i < expected.values.size(); ++i) {
      if (is_key_bias(training.shape, name, i)) {
        ASSERT_LE(std::fabs(trained.at(name)[i]), 1.2 * steps * training.optimizer.adamw.learning_rate) << name;
        continue;
      }
      ASSERT_NEAR(trained.at(name)[i], expected.values[i], weight_tolerance) << name << " element " << i;
    }
  }
}

TEST(TrainingOracle, gpt2_with_muon) {
  expect_near_oracle(training_for(gpt2_shape(), ScheduleKind::constant), Policy::balanced);
}

TEST(TrainingOracle, llama_with_muon) {
  Training training = training_for(llama_shape(), ScheduleKind::warmup_stable_decay);
  training.optimizer.muon.scale = ScaleRule::spectral;
  training.prefetch = 0;
  expect_near_oracle(training, Policy::role);
}

TEST(TrainingOracle, llama_with_muon_as_in_torch) {
  Training training = training_for(llama_shape(), ScheduleKind::cosine);
  training.optimizer.muon = torch_muon_options();
  training.optimizer.muon.scale = ScaleRule::match_rms_adamw;
  training.optimizer.muon.learning_rate = 5e-3;
  training.optimizer.muon.nesterov = false;
  expect_near_oracle(training, Policy::scope);
}

// Frozen parameters of every kind (one of them a matrix of only one block, so that blocks have different shapes), an
// untied head, two sequences per micro-batch, shorter than the positions. CASES 28: two groups.
TEST(TrainingOracle, gpt2_with_frozen_parameters_and_groups) {
  TransformerShape shape = gpt2_shape();
  shape.tied_head = false;
  Training training = training_for(shape, ScheduleKind::cosine);
  training.optimizer.muon.scale = ScaleRule::none;
  training.batch = 24;
  training.micro_batch = 2;
  training.tokens = 11;
  training.recompute = true;
  for (const char* name : {"position_embedding", "final_norm.weight", "block.0.mlp.up", "block.1.attention.qkv_bias"})
    parameter(training, name).frozen = true;
  training.spec.groups = {{"no decay", 0.5, 0.0}, {"fast", 3.0, {}}};
  for (const char* name : {"block.1.attention.output", "head.weight"})
    parameter(training, name).group = "no decay";
  for (const char* name : {"block.0.attention.qkv", "block.0.mlp.down_bias"})
    parameter(training, name).group = "fast";
  expect_near_oracle(training, Policy::cost);
}

TEST(TrainingOracle, gpt2_with_adamw) {
  Training training = training_for(gpt2_shape(), ScheduleKind::warmup_stable_decay);
  training.optimizer.matrices = MatrixOptimizer::adamw;
  training.optimizer.adamw.learning_rate = 3e-3;
  expect_near_oracle(training, Policy::role);
}

// A tied head without learned positions, and no clipping.
TEST(TrainingOracle, llama_with_adamw) {
  TransformerShape shape = llama_shape();
  shape.tied_head = true;
  Training training = training_for(shape, ScheduleKind::cosine);
  training.optimizer.matrices = MatrixOptimizer::adamw;
  training.optimizer.adamw.learning_rate = 3e-3;
  training.max_norm = 0.0;
  expect_near_oracle(training, Policy::balanced);
}

constexpr std::int64_t short_run = 20;

oracle::Parameters train_oracle(const Training& training, const oracle::Options& options,
                                const oracle::Parameters& initial) {
  oracle::Trainer trainer(testing::oracle_model(training.shape), options, initial);
  for (std::int64_t step = 1; step <= short_run; ++step)
    trainer.step(batch_of(training, step), 1);
  return trainer.parameters();
}

double largest_difference(const oracle::Parameters& a, const oracle::Parameters& b) {
  double largest = 0.0;
  for (const auto& [name, tensor] : a) {
    for (std::size_t i = 0; i < tensor.values.size(); ++i)
      largest = std::fmax(largest, std::fabs(tensor.values[i] - b.at(name).values[i]));
  }
  return largest;
}

// The tolerances are tight enough: whatever option a run ignored or took wrongly, its weights would be ten times too
// far off.
TEST(TrainingOracle, every_option_is_seen) {
  if (world().size() > 1) return;  // the oracle alone: once is enough
  TransformerShape shape = gpt2_shape();
  shape.layers = 1;
  const Training training = training_for(shape, ScheduleKind::cosine);
  TrainingLoop loop(world(), training, make_plan(training.spec, 1));
  const oracle::Parameters initial = testing::oracle_parameters(training.shape, loop.parameters());
  const oracle::Options options = testing::oracle_options(training);
  const oracle::Parameters trained = train_oracle(training, options, initial);
  const std::map<std::string, std::function<void(oracle::Options&)>> changes{
      {"no clipping", [](oracle::Options& o) { o.max_norm = 0.0; }},
      {"clipping at 1.1", [](oracle::Options& o) { o.max_norm = 1.1; }},
      {"no decay of matrices", [](oracle::Options& o) { o.muon.weight_decay = 0.0; }},
      {"no decay of tails", [](oracle::Options& o) { o.adamw.weight_decay = 0.0; }},
      {"no Nesterov", [](oracle::Options& o) { o.muon.nesterov = false; }},
      {"momentum", [](oracle::Options& o) { o.muon.momentum = 0.94; }},
      {"scale", [](oracle::Options& o) { o.muon.scale = "none"; }},
      {"table", [](oracle::Options& o) { o.muon.table = "keller-jordan"; }},
      {"six steps", [](oracle::Options& o) { o.muon.steps = 6; }},
      {"beta1", [](oracle::Options& o) { o.adamw.beta1 = 0.91; }},
      {"beta2", [](oracle::Options& o) { o.adamw.beta2 = 0.96; }},
      {"schedule", [](oracle::Options& o) { o.schedule.kind = oracle::ScheduleKind::constant; }},
      {"warm-up", [](oracle::Options& o) { o.schedule.warmup_steps = 4; }},
      {"frozen bias", [](oracle::Options& o) { o.frozen = {"block.0.mlp.up_bias"}; }},
      {"group",
       [](oracle::Options& o) {
         o.groups["block.0.mlp.down"] = {1.0, 0.05};
       }},
  };
  for (const auto& [name, change] : changes) {
    oracle::Options changed = options;
    change(changed);
    EXPECT_GT(largest_difference(train_oracle(training, changed, initial), trained), 10.0 * weight_tolerance) << name;
  }
}

}  // namespace
}  // namespace matrixfsdp
