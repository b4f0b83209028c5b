#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/micro_gradients.hpp"
#include "support/mpi_world.hpp"
#include "support/parts_of_world.hpp"
#include "support/small_models.hpp"

/// Hybrid sharding: groups of ranks that each hold the whole model.
namespace matrixfsdp {
namespace {

using testing::expect_folded_gradients;
using testing::group_sizes;
using testing::run_step;
using testing::small_model;
using testing::sum_over_ranks;
using testing::world;

// The same sums, norm and weights whatever the shard size: the fold is over all ranks' micro-batches.
TEST(FsdpGroups, the_shard_size_leaves_no_trace_in_the_bits) {
  const ModelSpec spec = small_model(3);
  for (const std::int64_t passes : {1, 3}) {
    double norm = 0;
    for (const int size : group_sizes()) {
      ShardedModelOptions options;
      options.passes = passes;
      options.shard_size = size;
      ShardedModel model(world(), spec, make_plan(spec, size), options);
      EXPECT_EQ(model.shard_group().first, world().rank() / size * size);
      for (int step = 0; step < 2; ++step) {
        run_step(model, passes);
        expect_folded_gradients(model, passes * world().size());
        const GradientNorm found = gradient_norm(model, world().rank() % size == 0 ? 2 : 0);
        EXPECT_EQ(found.failures, 2) << "of one group";
        if (size == 1 && step == 0) norm = found.norm;
        EXPECT_EQ(found.norm, norm);
        model.weights_changed();
      }
    }
  }
}

// Unshard stays inside the group, and owned memory is that of a plan for so many ranks; so is the rest, as predicted.
TEST(FsdpGroups, bytes_and_memory_are_those_of_the_group) {
  const ModelSpec spec = small_model(3);
  for (const int size : group_sizes()) {
    const Plan plan = make_plan(spec, size);
    ShardedModelOptions options;
    options.shard_size = size;
    ShardedModel model(world(), spec, plan, options);
    const std::int64_t before = world().bytes()[Purpose::unshard];
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      model.reshard(u);
    }
    std::int64_t expected = 0;
    for (const UnitPlan& unit : plan.units)
      expected += 4 * unit.weights.size * (size - 1) * (world().size() / size);
    EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before), expected) << size;

    MemoryOptions memory;
    memory.replicas = world().size() / size;
    const PlanReport predicted = report(spec, plan, memory);
    const MemoryUse use = model.memory();
    EXPECT_EQ(use.total() - use.weights - use.gradients,
              predicted.ranks[static_cast<std::size_t>(world().rank() % size)].window_bytes)
        << size;
  }
}

TEST(FsdpGroups, sizes_that_do_not_fit_are_refused) {
  const ModelSpec spec = small_model(1);
  ShardedModelOptions options;
  for (const int size : {-1, world().size() + 1}) {
    options.shard_size = size;
    EXPECT_THROW(ShardedModel(world(), spec, make_plan(spec, world().size()), options), ContractError);
  }
  options.shard_size = 1;
  if (world().size() > 1) {
    EXPECT_THROW(ShardedModel(world(), spec, make_plan(spec, world().size()), options), ContractError);
    EXPECT_THROW(ShardedModel(world(), spec, make_replicated_plan(spec, world().size()), options), ContractError);
  }
}

}  // namespace
}  // namespace matrixfsdp
