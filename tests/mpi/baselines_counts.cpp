#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>

#include "support/gradient_kinds.hpp"
#include "support/parts_of_world.hpp"
#include "support/shapes_model.hpp"

// What a step sends, computes and holds on each rank is what strategy_loads says.
namespace matrixfsdp {
namespace {

using testing::GradientKind;
using testing::gradients_of;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::SyntheticStep;
using testing::world;

struct Setting {
  MatrixOptimizer optimizer = MatrixOptimizer::muon;
  std::int64_t passes = 1;
  std::int64_t prefetch = 1;
  std::int64_t reduces_in_flight = 1;
  CollectiveAlgorithm collective = CollectiveAlgorithm::scatter;
  int newton_schulz_steps = 5;
  DType wire = DType::float32;
  int workers = 1;
};

/// Five units that are not kept, so that storage is recycled; tall, wide and square matrices of several sizes.
ModelSpec counted_model() {
  ModelSpec model = testing::small_model(5);
  model.units[3].parameters.push_back(testing::fused("qkv", {30, 8}, 0, {14, 8, 8}));
  model.units[4].parameters.push_back(testing::matrix("tall", {61, 7}));
  model.units[4].parameters.push_back(testing::matrix("few", {2, 40}));
  model.units[5].parameters.push_back(testing::fused("columns", {9, 12}, 1, {6, 4, 2}));
  return model;
}

SyntheticOptions options_of(StrategyKind kind, const Setting& setting) {
  SyntheticOptions options;
  options.micro_batches = setting.passes * world().size();
  options.strategy = kind;
  options.optimizer.matrices = setting.optimizer;
  options.optimizer.workers = setting.workers;
  options.optimizer.muon.newton_schulz.steps = setting.newton_schulz_steps;
  // Every step refreshes: each one's FLOPs are those that the plan has on average.
  options.optimizer.shampoo.preconditioner.frequency = options.optimizer.soap.preconditioner.frequency = 1;
  options.sharding.prefetch = setting.prefetch;
  options.sharding.reduces_in_flight = setting.reduces_in_flight;
  options.sharding.collective = setting.collective;
  options.sharding.policies.all = {kind == StrategyKind::zero1_owner ? DType::float32 : setting.wire, setting.wire};
  return options;
}

StrategyCostOptions costs_of(const SyntheticOptions& options, const Setting& setting) {
  StrategyCostOptions costs;
  costs.memory.prefetch = setting.prefetch;
  costs.memory.reduces_in_flight = setting.reduces_in_flight;
  costs.memory.passes = setting.passes;
  costs.memory.policies = options.sharding.policies;
  costs.memory.optimizer = cost_of(options.optimizer);
  costs.collective = setting.collective;
  return costs;
}

void expect_counts(StrategyKind kind, const Setting& setting) {
  SCOPED_TRACE(fmt::format("{}, {} passes, prefetch {}, {} reduces in flight, collective {}, {}, {} workers",
                           name_of(kind), setting.passes, setting.prefetch, setting.reduces_in_flight,
                           name_of(setting.collective), name_of(setting.optimizer), setting.workers));
  const ModelSpec spec = counted_model();
  const SyntheticOptions options = options_of(kind, setting);
  Communicator own = testing::duplicate_world();
  PlannerOptions planner;
  planner.optimizer = cost_of(options.optimizer);
  const Plan plan = make_strategy_plan(kind, spec, own.size(), planner);
  SyntheticRun run(own, spec, plan, options);
  const auto rule = gradients_of(GradientKind::ordinary, 1, options.micro_batches);
  run.step(rule);
  run.model().complete();
  const ByteCounts before = own.bytes();
  const SyntheticStep step = run.step(rule);
  run.model().complete();
  const ByteCounts after = own.bytes();
  const auto sent = [&](Purpose purpose) { return after[purpose] - before[purpose]; };

  const std::vector<StrategyLoad> loads =
      strategy_loads(kind, spec, plan, mpi::topology_of(own), costs_of(options, setting));
  const StrategyLoad& load = loads.at(static_cast<std::size_t>(own.rank()));
  EXPECT_EQ(sent(Purpose::unshard), load.unshard_bytes);
  EXPECT_EQ(sent(Purpose::reduce), load.reduce_bytes);
  EXPECT_EQ(sent(Purpose::optimizer), load.optimizer_bytes);
  EXPECT_EQ(step.taken.flops, load.flops);
  const MemoryUse use = run.model().memory();
  EXPECT_EQ(use.weights + use.gradients + run.optimizer().state_bytes(), load.resident_bytes);
  EXPECT_EQ(use.total() - use.weights - use.gradients, load.window_bytes);
  EXPECT_EQ(run.optimizer().workspace_bytes(), load.workspace_bytes);
  EXPECT_EQ(load.peak_bytes(), load.resident_bytes + load.window_bytes + load.workspace_bytes);
}

class BaselineCounts : public ::testing::TestWithParam<StrategyKind> {};

// CASES 3: bytes of real elements only; CASES 2: a rank computes what it holds.
TEST_P(BaselineCounts, bytes_flops_and_memory_are_the_formulas) {
  for (const MatrixOptimizer optimizer : matrix_optimizers()) {
    if (!supports(GetParam(), optimizer)) continue;
    for (const std::int64_t passes : {1, 3}) {
      for (const std::int64_t prefetch : {0, 1, 5}) {
        Setting setting;
        setting.optimizer = optimizer;
        setting.passes = passes;
        setting.prefetch = prefetch;
        setting.reduces_in_flight = prefetch % 3;
        setting.workers = 1 + static_cast<int>(prefetch % 3);
        expect_counts(GetParam(), setting);
      }
    }
  }
}

TEST_P(BaselineCounts, other_collectives_steps_and_dtypes) {
  Setting setting;
  setting.newton_schulz_steps = 2;
  for (const CollectiveAlgorithm collective :
       {CollectiveAlgorithm::direct, CollectiveAlgorithm::chain, CollectiveAlgorithm::tree,
        CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::allgatherv}) {
    setting.collective = collective;
    expect_counts(GetParam(), setting);
  }
  setting.wire = DType::bfloat16;
  expect_counts(GetParam(), setting);
}

/// Sums over ranks in closed form, as the documentation states them.
TEST_P(BaselineCounts, sums_over_ranks_are_those_that_are_stated) {
  const StrategyKind kind = GetParam();
  const ModelSpec spec = counted_model();
  const std::int64_t ranks = world().size();
  StrategyCostOptions costs;
  costs.memory.prefetch = 9;  // a place for every unit: one fetch of each
  const Plan plan = make_strategy_plan(kind, spec, world().size());
  std::int64_t unshard = 0;
  std::int64_t optimizer = 0;
  for (const StrategyLoad& load :
       strategy_loads(kind, spec, plan, make_topology(world().size(), world().size()), costs)) {
    unshard += load.unshard_bytes;
    optimizer += load.optimizer_bytes;
  }
  if (!has_row_shards(kind)) {
    EXPECT_EQ(unshard, kind == StrategyKind::matrix_fsdp ? 4 * (ranks - 1) * element_count(spec) : 0);
  }
  std::int64_t expected = 0;
  for (const UnitSpec& unit : spec.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      const std::int64_t size = element_count(parameter.shape);
      if (kind == StrategyKind::zero1_owner) expected += 4 * (ranks - 1) * size;
      if (parameter.frozen || kind_of(parameter) != ParameterKind::matrix || ranks == 1) continue;
      if (kind == StrategyKind::fsdp2_gather) expected += 4 * (ranks - 1) * size;
      if (kind != StrategyKind::fsdp2) continue;
      expected += 16 * ranks * (ranks - 1);
      for (const MatrixPart& part : matrix_parts(parameter)) {
        const bool wide = part.rows <= part.cols;
        expected += wide ? 4 * 5 * (ranks - 1) * part.rows * part.cols
                         : 8 * 5 * (ranks - 1) * part.cols * part.cols + 16 * ranks * (ranks - 1);
      }
    }
  }
  if (kind != StrategyKind::fsdp2_alltoall) {
    EXPECT_EQ(optimizer, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(strategies, BaselineCounts, ::testing::ValuesIn(strategy_kinds()), [](const auto& given) {
  std::string name(name_of(given.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace matrixfsdp
