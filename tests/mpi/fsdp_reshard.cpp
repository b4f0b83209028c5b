#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

/// Who holds a unit from forward to backward.
namespace matrixfsdp {
namespace {

using testing::small_model;
using testing::sum_over_ranks;
using testing::world;

std::vector<float> weights_of(const ShardedModel& model, std::size_t unit) {
  std::vector<float> values;
  for (const TensorView<float>& weight : model.weights(unit)) {
    for (std::size_t i = 0; i < weight.size(); ++i)
      values.push_back(weight(i));
  }
  return values;
}

/// Bytes that all ranks send in a backward through all units, after a forward.
std::int64_t backward_bytes(ShardedModel& model) {
  std::vector<std::vector<float>> seen;
  for (std::size_t u = 0; u < model.unit_count(); ++u) {
    model.unshard(u, Phase::forward);
    seen.push_back(weights_of(model, u));
    model.reshard(u);
  }
  const std::int64_t before = world().bytes()[Purpose::unshard];
  for (std::size_t u = model.unit_count(); u-- > 0;) {
    model.unshard(u, Phase::backward);
    EXPECT_EQ(weights_of(model, u), seen[u]) << model.spec().units[u].name;
    model.reshard(u);
  }
  return sum_over_ranks(world().bytes()[Purpose::unshard] - before);
}

/// One slot: every unit but the last one must be fetched anew in backward, and the root, which is kept, never.
std::int64_t fetched_elements(const ShardedModel& model) {
  std::int64_t elements = 0;
  for (std::size_t u = 1; u + 1 < model.unit_count(); ++u)
    elements += model.plan().units[u].weights.size;
  return elements;
}

TEST(FsdpReshard, backward_unshards_among_the_ranks_that_hold_the_unit) {
  const ModelSpec spec = small_model(4);
  for (int holders = 0; holders <= world().size(); ++holders) {
    if (holders > 0 && world().size() % holders != 0) continue;
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const Plan plan = make_plan(spec, world().size());
      ShardedModelOptions options;
      options.prefetch = 0;
      options.policies.all.reshard_to = holders;
      options.policies.all.param_dtype = dtype;
      ShardedModel model(world(), spec, plan, options);
      const auto element = static_cast<std::int64_t>(size_of(dtype));
      const int group = holders == 0 ? world().size() : holders;
      for (int step = 0; step < 2; ++step) {
        EXPECT_EQ(backward_bytes(model), element * fetched_elements(model) * (group - 1) * (world().size() / group))
            << holders << " holders";
        for (const ParameterView& view : model.resident()) {
          for (std::size_t i = 0; i < view.weight.size(); ++i)
            view.weight(i) += 1;
        }
        model.weights_changed();  // what is held is of yesterday's weights
      }
      MemoryOptions memory;
      memory.prefetch = 0;
      memory.policies = options.policies;
      const MemoryUse use = model.memory();
      EXPECT_EQ(use.total() - use.weights - use.gradients,
                report(spec, plan, memory).ranks[static_cast<std::size_t>(world().rank())].window_bytes)
          << holders << " holders";
    }
  }
}

TEST(FsdpReshard, one_unit_has_a_policy_of_its_own) {
  if (world().size() == 1) return;  // resident: nothing travels
  const ModelSpec spec = small_model(4);
  ShardedModelOptions options;
  options.prefetch = 0;
  options.policies.by_unit["block.1"].reshard_to = 1;
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options);
  EXPECT_EQ(backward_bytes(model),
            4 * (world().size() - 1) * (fetched_elements(model) - model.plan().units[2].weights.size));
}

// The caller says which units' backward needs weights: what it leaves out is not fetched ahead of time either.
TEST(FsdpReshard, a_unit_without_backward_weights_is_not_fetched) {
  if (world().size() == 1) return;
  ModelSpec spec = small_model(3);
  spec.units[0].keep = false;
  ShardedModel model(world(), spec, make_plan(spec, world().size()), {});
  model.set_prefetch(1, Phase::backward, {});
  for (std::size_t u = 0; u < 4; ++u) {
    model.unshard(u, Phase::forward);
    model.reshard(u);
  }
  const std::int64_t before = world().bytes()[Purpose::unshard];
  for (std::size_t u = 3; u > 0; --u) {
    model.unshard(u, Phase::backward);
    model.reshard(u);
  }
  EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before),
            4 * (world().size() - 1) * model.plan().units[1].weights.size)
      << "3 and 2 lie in their slots";
}

TEST(FsdpReshard, numbers_that_do_not_divide_are_refused) {
  const ModelSpec spec = small_model(1);
  for (const std::int64_t holders : {std::int64_t{-1}, std::int64_t{world().size()} + 1}) {
    ShardedModelOptions options;
    options.policies.by_unit["block.0"].reshard_to = holders;
    EXPECT_THROW(ShardedModel(world(), spec, make_plan(spec, world().size()), options), InputError);
  }
}

}  // namespace
}  // namespace matrixfsdp
