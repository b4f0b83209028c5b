#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/agree.hpp"
#include "support/checkpoint_run.hpp"
#include "support/messages.hpp"
#include "support/shapes_model.hpp"

// A matrix that cannot be stepped, options that do not fit, and checkpoints from one strategy to another.
namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::CheckpointRun;
using testing::world;

CheckpointRun run_of(StrategyKind kind, MatrixOptimizer matrices = MatrixOptimizer::muon) {
  return CheckpointRun(world(), make_strategy_plan(kind, checkpoint_model(), world().size()), checkpoint_model(),
                       matrices, kind);
}

using Values = std::vector<std::vector<float>>;

Values weights_of(const CheckpointRun& run) {
  Values values;
  for (const ParameterView& view : run.model.resident())
    values.emplace_back(view.weight.data(), view.weight.data() + view.weight.size());
  return values;
}

Values state_of(CheckpointRun& run) {
  Values values;
  for (const StateView& state : run.optimizer->state())
    values.emplace_back(state.values.data(), state.values.data() + state.values.size());
  return values;
}

class BaselineFailures : public ::testing::TestWithParam<StrategyKind> {};

// CASES 30: one element on one rank. The matrix stays as it was on every rank, momentum too; all others are stepped.
TEST_P(BaselineFailures, a_matrix_that_is_not_finite_stays_on_every_rank) {
  const std::string bad = "block.1.up";
  CheckpointRun run = run_of(GetParam());
  run.fill(1);
  run.model.weights_changed();
  run.model.complete();
  const Values before = weights_of(run);
  for (const ParameterView& view : run.model.trainable()) {
    for (std::size_t i = 0; i < view.gradient.size(); ++i)
      view.gradient(i) = std::sin(static_cast<float>(i + 1));
    const std::int64_t last = element_count(view.spec->shape) - 1;
    if (view.spec->name == bad && view.elements.end == last + 1)
      view.gradient(view.gradient.size() - 1) = std::numeric_limits<float>::quiet_NaN();
  }
  const StepResult result = run.strategy.step({});
  run.model.complete();
  bool holds_rows = false;
  std::size_t next = 0;
  for (const ParameterView& view : run.model.resident()) {
    const std::vector<float> now(view.weight.data(), view.weight.data() + view.weight.size());
    const bool stays = view.spec->name == bad || view.spec->frozen;
    EXPECT_EQ(now == before[next++], stays) << view.spec->name;
    holds_rows = holds_rows || view.spec->name == bad;
  }
  EXPECT_EQ(testing::sum_over_ranks(holds_rows && result.failed.empty() ? 1 : 0), 0);
  for (const std::string& name : result.failed)
    EXPECT_EQ(name, bad);
}

TEST_P(BaselineFailures, momentum_of_a_failed_matrix_stays) {
  const std::string bad = "block.0.down";
  CheckpointRun run = run_of(GetParam());
  run.fill(3);
  run.model.weights_changed();
  const Values before = state_of(run);
  for (const ParameterView& view : run.model.trainable()) {
    for (std::size_t i = 0; i < view.gradient.size(); ++i)
      view.gradient(i) = view.spec->name == bad ? std::numeric_limits<float>::infinity() : 1.0F;
  }
  run.strategy.step({});
  run.model.complete();
  const Values after = state_of(run);
  const std::vector<StateView> states = run.optimizer->state();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::string& name = run.optimizer->views()[states[i].view].spec->name;
    EXPECT_EQ(after[i] == before[i], name == bad) << name << " " << states[i].name;
  }
}

// CASES 49, 52, 53: weights and state, from every strategy to every other.
TEST_P(BaselineFailures, a_checkpoint_loads_under_every_other_strategy) {
  for (const MatrixOptimizer matrices : matrix_optimizers()) {
    if (!supports(GetParam(), matrices)) continue;
    const testing::SharedFolder folder(world());
    CheckpointRun saved = run_of(GetParam(), matrices);
    saved.fill(5);
    io::save_checkpoint(folder / "a", saved.model, *saved.optimizer, testing::training_state(1));
    for (const StrategyKind kind : strategy_kinds()) {
      if (!supports(kind, matrices)) continue;
      SCOPED_TRACE(name_of(kind));
      CheckpointRun loaded = run_of(kind, matrices);
      loaded.fill(6);
      io::load_checkpoint(folder / "a/step_00000001", loaded.model, *loaded.optimizer);
      CheckpointRun expected = run_of(kind, matrices);
      expected.fill(5);
      EXPECT_EQ(weights_of(loaded), weights_of(expected));
      EXPECT_EQ(state_of(loaded), state_of(expected));
      loaded.model.unshard(1, Phase::forward);
      const TensorView<float> up = loaded.model.weights(1)[0];
      expected.model.weights_changed();
      expected.model.unshard(1, Phase::forward);
      for (std::size_t i = 0; i < up.size(); ++i)
        ASSERT_EQ(up(i), expected.model.weights(1)[0](i)) << i;
    }
  }
}

// Row shards and factors of whole matrices: an error before anything is made, that names both.
TEST_P(BaselineFailures, an_optimizer_that_needs_whole_matrices_is_refused_by_name) {
  const StrategyKind kind = GetParam();
  const ModelSpec spec = checkpoint_model();
  for (const MatrixOptimizer matrices : matrix_optimizers()) {
    StrategyOptions options;
    options.optimizer.matrices = matrices;
    const auto make = [&] { Strategy(kind, world(), spec, make_strategy_plan(kind, spec, world().size()), options); };
    if (supports(kind, matrices)) {
      EXPECT_NO_THROW(make()) << name_of(matrices);
      continue;
    }
    const std::string message = testing::common_message_of<InputError>(world(), make);
    EXPECT_NE(message.find(fmt::format("strategy {} with optimizer {}", name_of(kind), name_of(matrices))),
              std::string::npos)
        << message;
  }
}

TEST_P(BaselineFailures, what_does_not_fit_is_one_error) {
  const StrategyKind kind = GetParam();
  const ModelSpec spec = checkpoint_model();
  const int ranks = world().size();
  ShardedModelOptions options;
  EXPECT_NO_THROW(check_strategy(kind, ranks, spec, options));
  options.shard_size = ranks;
  EXPECT_NO_THROW(check_strategy(kind, ranks, spec, options));
  const auto refused = [&](bool expected) {
    if (expected) {
      EXPECT_THROW(check_strategy(kind, ranks, spec, options), InputError);
    } else {
      EXPECT_NO_THROW(check_strategy(kind, ranks, spec, options));
    }
    options = {};
  };
  options.shard_size = 2 * ranks;
  refused(kind != StrategyKind::matrix_fsdp);
  options.collective = CollectiveAlgorithm::padded;
  refused(has_row_shards(kind));
  options.unit_collectives.assign(spec.units.size(), {CollectiveAlgorithm::padded, CollectiveAlgorithm::scatter});
  refused(has_row_shards(kind));
  options.policies.all.reshard_to = ranks;
  refused(ranks > 1 && kind != StrategyKind::matrix_fsdp && kind != StrategyKind::ddp);
  options.policies.all.param_dtype = DType::bfloat16;
  refused(kind == StrategyKind::zero1_owner);
}

TEST_P(BaselineFailures, a_plan_of_another_strategy_is_an_error) {
  const ModelSpec spec = checkpoint_model();
  for (const StrategyKind other : strategy_kinds()) {
    Plan plan = make_strategy_plan(other, spec, world().size());
    const bool fits = has_row_shards(other) == has_row_shards(GetParam()) &&
                      (other == StrategyKind::ddp) == (GetParam() == StrategyKind::ddp);
    if (fits) {
      EXPECT_NO_THROW(Strategy(GetParam(), world(), spec, std::move(plan), {}));
    } else {
      EXPECT_THROW(Strategy(GetParam(), world(), spec, std::move(plan), {}), ContractError);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(strategies, BaselineFailures, ::testing::ValuesIn(strategy_kinds()), [](const auto& given) {
  std::string name(name_of(given.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace matrixfsdp
