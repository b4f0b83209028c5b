#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>

#include "support/agree.hpp"
#include "support/equal_bits.hpp"
#include "support/gradient_kinds.hpp"
#include "support/parts_of_world.hpp"
#include "support/shapes_model.hpp"

// Steps in backward are those of a step afterwards, bit for bit, and hold the gradients that the plan says.
namespace matrixfsdp {
namespace {

using testing::GradientKind;
using testing::gradients_of;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::SyntheticStep;
using testing::world;

/// A kept root, the shapes in two units, and small blocks, so that storage is shared and recycled.
ModelSpec stepped_model() {
  ModelSpec model = testing::shapes_model();
  const ModelSpec blocks = testing::small_model(3);
  model.units.insert(model.units.end(), blocks.units.begin() + 1, blocks.units.end());
  return model;
}

MemoryOptions memory_of(const SyntheticOptions& options, int shard_size) {
  MemoryOptions memory;
  memory.prefetch = options.sharding.prefetch;
  memory.reduces_in_flight = options.sharding.reduces_in_flight;
  memory.passes = options.micro_batches / world().size();
  memory.unsharded_accumulation = options.sharding.accumulation == Accumulation::unsharded;
  memory.replicas = world().size() / shard_size;
  memory.policies = options.sharding.policies;
  memory.optimizer.matrices = options.optimizer.matrices;
  memory.step_in_backward = options.sharding.step_in_backward;
  memory.sum_group = options.sharding.sum_group;
  memory.collectives.assign(stepped_model().units.size(),
                            {options.sharding.collective, options.sharding.reduce_collective});
  memory.topology = mpi::topology_of(world());
  return memory;
}

/// Bytes that the plan predicts are those that the model counts; those of a step afterwards are not fewer.
void expect_memory(SyntheticRun& run, const ModelSpec& spec, const SyntheticOptions& options, int shard_size) {
  const MemoryOptions memory = memory_of(options, shard_size);
  const auto member = static_cast<std::size_t>(world().rank() % shard_size);
  const RankLoad load = report(spec, run.model().plan(), memory).ranks[member];
  const MemoryUse use = run.model().memory();
  EXPECT_EQ(use.gradients, load.gradient_bytes);
  EXPECT_EQ(use.weights + use.gradients + run.optimizer().state_bytes(), load.owned_bytes);
  if (world().rank() < shard_size) {
    EXPECT_EQ(use.total() - use.weights - use.gradients, load.window_bytes);
  }
  MemoryOptions afterwards = memory;
  afterwards.step_in_backward = false;
  const RankLoad all = report(spec, run.model().plan(), afterwards).ranks[member];
  EXPECT_LE(load.gradient_bytes, all.gradient_bytes);
  EXPECT_EQ(all.owned_bytes - load.owned_bytes, all.gradient_bytes - load.gradient_bytes);
}

/// Steps of all kinds of gradients that do not end a run.
void expect_equal_steps(const SyntheticOptions& options, int shard_size, const std::string& what) {
  SCOPED_TRACE(what);
  const ModelSpec spec = stepped_model();
  Communicator alone = testing::alone();
  SyntheticOptions reference = options;
  reference.sharding = {};
  reference.sharding.policies.all.param_dtype = options.sharding.policies.all.param_dtype;
  reference.sharding.policies.all.reduce_dtype = options.sharding.policies.all.reduce_dtype;
  reference.sharding.sum_group = options.sharding.sum_group;
  SyntheticRun expected(alone, spec, make_plan(spec, 1), reference);
  SyntheticOptions stepped = options;
  stepped.sharding.step_in_backward = true;
  stepped.sharding.shard_size = shard_size;
  Communicator own = testing::duplicate_world();
  SyntheticRun run(own, spec, make_plan(spec, shard_size), stepped);
  expect_memory(run, spec, stepped, shard_size);
  std::uint64_t seed = 1;
  for (const GradientKind gradients : {GradientKind::zero, GradientKind::tiny, GradientKind::ordinary,
                                       GradientKind::missing, GradientKind::spike, GradientKind::ordinary}) {
    const auto rule = gradients_of(gradients, seed++, options.micro_batches);
    const SyntheticStep one = expected.step(rule);
    const SyntheticStep step = run.step(rule);
    ASSERT_TRUE(step.finite);
    EXPECT_EQ(step.norm, one.norm) << testing::name_of(gradients);
    EXPECT_EQ(testing::sum_over_ranks(step.taken.matrices_orthogonalized),
              one.taken.matrices_orthogonalized * world().size() / shard_size);
    ASSERT_EQ(testing::first_of_all_ranks(run.difference_from(expected.tensors())), "") << testing::name_of(gradients);
  }
  EXPECT_EQ(own.bytes()[Purpose::optimizer], 0);
}

TEST(StepInBackward, any_passes_prefetch_and_reduces_in_flight) {
  for (const MatrixOptimizer optimizer : {MatrixOptimizer::muon, MatrixOptimizer::adamw}) {
    for (const std::int64_t passes : {1, 3}) {
      for (const std::int64_t prefetch : {0, 1, 5}) {
        SyntheticOptions options;
        options.micro_batches = passes * world().size();
        options.optimizer.matrices = optimizer;
        options.optimizer.muon.weight_decay = options.optimizer.adamw.weight_decay = 0.1;
        options.sharding.prefetch = prefetch;
        options.sharding.reduces_in_flight = prefetch % 3;
        options.sharding.progress_thread = prefetch > 0;
        expect_equal_steps(options, world().size(),
                           fmt::format("{} passes, prefetch {}, optimizer {}", passes, prefetch,
                                       optimizer == MatrixOptimizer::muon ? "muon" : "adamw"));
      }
    }
  }
}

TEST(StepInBackward, any_reshard_policy_collective_and_dtype) {
  for (const std::int64_t reshard_to : {0, 1, 2}) {
    if (reshard_to > 1 && world().size() % 2 != 0) continue;
    SyntheticOptions options;
    options.micro_batches = world().size();
    options.sharding.policies.all.reshard_to = reshard_to;
    expect_equal_steps(options, world().size(), fmt::format("reshard to {}", reshard_to));
    options.sharding.policies.all.param_dtype = options.sharding.policies.all.reduce_dtype = DType::bfloat16;
    expect_equal_steps(options, world().size(), fmt::format("reshard to {}, bfloat16", reshard_to));
  }
  using enum CollectiveAlgorithm;
  for (const CollectiveAlgorithm way : {direct, chain, tree, hierarchical}) {
    SyntheticOptions options;
    options.micro_batches = 2 * world().size();
    options.sharding.collective = options.sharding.reduce_collective = way;
    options.sharding.sum_group = 2;
    options.sharding.reduces_in_flight = 2;
    expect_equal_steps(options, world().size(), std::string(name_of(way)));
  }
}

// Hybrid sharding: owners of every shard group step, each on its own.
TEST(StepInBackward, any_shard_size) {
  for (const int size : testing::group_sizes()) {
    for (const CollectiveAlgorithm way : {CollectiveAlgorithm::scatter, CollectiveAlgorithm::chain}) {
      for (const std::int64_t passes : {1, 2}) {
        SyntheticOptions options;
        options.micro_batches = passes * world().size();
        options.sharding.reduce_collective = way;
        expect_equal_steps(options, size, fmt::format("shard size {}, {} passes, {}", size, passes, name_of(way)));
      }
    }
  }
}

// Passes that are summed before one exchange: their gradients share storage too. Other bits than on one rank, so that
// the reference is the same run with its steps afterwards.
TEST(StepInBackward, unsharded_accumulation) {
  const ModelSpec spec = stepped_model();
  SyntheticOptions options;
  options.micro_batches = 3 * world().size();
  options.sharding.accumulation = Accumulation::unsharded;
  Communicator first = testing::duplicate_world();
  Communicator second = testing::duplicate_world();
  SyntheticRun afterwards(first, spec, make_plan(spec, world().size()), options);
  options.sharding.step_in_backward = true;
  SyntheticRun run(second, spec, make_plan(spec, world().size()), options);
  expect_memory(run, spec, options, world().size());
  EXPECT_LT(testing::sum_over_ranks(run.model().memory().gradients),
            testing::sum_over_ranks(afterwards.model().memory().gradients));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto rule = gradients_of(GradientKind::ordinary, seed, options.micro_batches);
    EXPECT_EQ(run.step(rule).norm, afterwards.step(rule).norm);
  }
  for (std::size_t v = 0; v < run.model().trainable().size(); ++v) {
    const ParameterView& mine = run.model().trainable()[v];
    const ParameterView& theirs = afterwards.model().trainable()[v];
    for (std::size_t i = 0; i < mine.weight.size(); ++i)
      ASSERT_EQ(mine.weight(i), theirs.weight(i)) << mine.spec->name;
  }
}

// CASES 10: tied weights belong to the root, which is kept, reduced last, and read by nobody after that.
TEST(StepInBackward, transformers_with_tied_weights_train_alike) {
  for (const bool tied : {true, false}) {
    for (const std::int64_t micro_batch : {1, 0}) {
      testing::Training training = testing::training_of({TransformerStyle::gpt2, 3, 36, 6, 6, 52, 9, 173, tied});
      if (micro_batch == 0) training.micro_batch = training.batch / world().size();
      training.optimizer.muon.weight_decay = 0.1;
      const testing::TrainingResult expected =
          testing::run_training(world(), training, make_plan(training.spec, world().size()), 4);
      training.step_in_backward = true;
      EXPECT_TRUE(testing::equal_bits(
          testing::run_training(world(), training, make_plan(training.spec, world().size()), 4), expected))
          << "tied " << tied << ", micro-batches of " << training.micro_batch;
    }
  }
}

// What is not finite is seen by all ranks and named, and its matrix stays; the other units have been stepped.
TEST(StepInBackward, a_gradient_that_is_not_finite_is_told_but_nothing_goes_back) {
  const ModelSpec spec = stepped_model();
  SyntheticOptions options;
  options.micro_batches = world().size();
  options.sharding.step_in_backward = true;
  Communicator own = testing::duplicate_world();
  SyntheticRun run(own, spec, make_plan(spec, world().size()), options);
  std::map<std::string, std::vector<float>> before;
  for (const ParameterView& view : run.model().trainable())
    before[view.spec->name] = {view.weight.data(), view.weight.data() + view.weight.size()};
  const SyntheticStep step = run.step(gradients_of(GradientKind::non_finite, 1, options.micro_batches));
  EXPECT_FALSE(step.finite);
  StepInput input;
  input.step = 1;
  const StepResult taken = run.strategy().step(input);
  bool owner = false;
  for (const ParameterView& view : run.model().trainable()) {
    const std::vector<float> now(view.weight.data(), view.weight.data() + view.weight.size());
    const bool bad = view.spec->name == "m.18x3";
    owner = owner || bad;
    EXPECT_EQ(now == before[view.spec->name], bad) << view.spec->name;
  }
  EXPECT_EQ(taken.failed, owner ? std::vector<std::string>{"m.18x3"} : std::vector<std::string>{});
}

TEST(StepInBackward, other_strategies_and_clipping_refuse_it) {
  const ModelSpec spec = stepped_model();
  ShardedModelOptions sharding;
  sharding.step_in_backward = true;
  for (const StrategyKind kind : strategy_kinds()) {
    if (kind == StrategyKind::matrix_fsdp) {
      EXPECT_NO_THROW(check_strategy(kind, world().size(), spec, sharding));
      continue;
    }
    try {
      check_strategy(kind, world().size(), spec, sharding);
      ADD_FAILURE() << name_of(kind) << " was accepted";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(name_of(kind)), std::string::npos) << error.what();
    }
  }
  SyntheticOptions options;
  options.micro_batches = world().size();
  SyntheticRun afterwards(world(), spec, make_plan(spec, world().size()), options);
  EXPECT_THROW(afterwards.strategy().step_in_backward({}), ContractError);
  options.sharding.step_in_backward = true;
  SyntheticRun run(world(), spec, make_plan(spec, world().size()), options);
  EXPECT_THROW(run.strategy().step_in_backward({0.5, 1.0, 1}), ContractError);
  EXPECT_THROW(run.strategy().step({}), ContractError) << "no step in backward was taken";
}

// The step afterwards must be that of backward: another one would be lost in silence.
TEST(StepInBackward, the_step_is_the_one_that_backward_has_taken) {
  const ModelSpec spec = stepped_model();
  SyntheticOptions options;
  options.micro_batches = world().size();
  options.sharding.step_in_backward = true;
  SyntheticRun run(world(), spec, make_plan(spec, world().size()), options);
  run.step(gradients_of(GradientKind::ordinary, 1, options.micro_batches));
  EXPECT_GT(run.strategy().unit_step_seconds(), 0);
  StepInput input;
  input.step = 2;
  run.strategy().step_in_backward(input);
  input.step = 3;
  EXPECT_THROW(run.strategy().step(input), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
