#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/messages.hpp"
#include "support/mpi_world.hpp"
#include "support/reduction_bytes.hpp"
#include "support/small_models.hpp"
#include "support/wire_values.hpp"

// Weights and gradients of units that travel as bfloat16, under any plan and number of ranks.
namespace matrixfsdp {
namespace {

using testing::rounded;
using testing::same;
using testing::small_model;
using testing::sum_over_ranks;
using testing::wire_value_at;
using testing::world;

/// Weights and gradients of all units, weights of all but the root and block 1, or nothing.
std::vector<UnitPolicies> all_policies() {
  UnitPolicies both{{DType::bfloat16, DType::bfloat16}, {}};
  UnitPolicies some{{DType::bfloat16, DType::float32}, {}};
  some.by_unit["root"] = {};
  some.by_unit["block.1"] = {DType::float32, DType::bfloat16};
  return {both, some, {}};
}

UnitPolicy policy_of(const UnitPolicies& policies, const std::string& unit) {
  return policies.by_unit.contains(unit) ? policies.by_unit.at(unit) : policies.all;
}

Plan plan_for(const ModelSpec& spec, bool replicated) {
  return replicated ? make_replicated_plan(spec, world().size()) : make_plan(spec, world().size());
}

/// Writes everything that this rank holds; `round` tells different weights apart.
void write_masters(ShardedModel& model, std::uint64_t round) {
  for (const ParameterView& view : model.resident()) {
    for (std::int64_t i = 0; i < view.elements.size(); ++i)
      view.weight(static_cast<std::size_t>(i)) =
          wire_value_at(stream_of(view.spec->name) + round, view.elements.begin + i);
  }
  model.weights_changed();
}

void expect_weights(const ShardedModel& model, std::size_t unit, std::uint64_t round, DType dtype) {
  for (std::size_t p = 0; p < model.weights(unit).size(); ++p) {
    const ParameterSpec& spec = model.spec().units[unit].parameters[p];
    const TensorView<float>& values = model.weights(unit)[p];
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), element_count(spec.shape));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float master = wire_value_at(stream_of(spec.name) + round, static_cast<std::int64_t>(i));
      const float expected = dtype == DType::bfloat16 ? rounded(master) : master;
      ASSERT_TRUE(same(values(i), expected)) << spec.name << " element " << i << ": " << values(i) << ", " << expected;
    }
  }
}

// Also where nothing travels: one rank, and a replicated plan, compute with what others would get.
TEST(FsdpWire, every_rank_computes_with_rounded_weights_and_keeps_its_masters) {
  const ModelSpec spec = small_model(4);
  for (const bool replicated : {false, true}) {
    for (const int prefetch : {0, 2}) {
      for (const UnitPolicies& policies : all_policies()) {
        ShardedModelOptions options;
        options.prefetch = prefetch;
        options.policies = policies;
        ShardedModel model(world(), spec, plan_for(spec, replicated), options);
        for (std::uint64_t round = 1; round <= 3; ++round) {
          write_masters(model, round);
          for (std::size_t u = 0; u < model.unit_count(); ++u) {
            model.unshard(u, Phase::forward);
            expect_weights(model, u, round, policy_of(policies, spec.units[u].name).param_dtype);
            model.reshard(u);
          }
          for (std::size_t u = model.unit_count(); u-- > 0;) {
            model.unshard(u, Phase::backward);
            expect_weights(model, u, round, policy_of(policies, spec.units[u].name).param_dtype);
            model.reshard(u);
          }
          for (const ParameterView& view : model.resident()) {
            for (std::int64_t i = 0; i < view.elements.size(); ++i) {
              const float master = wire_value_at(stream_of(view.spec->name) + round, view.elements.begin + i);
              ASSERT_TRUE(same(view.weight(static_cast<std::size_t>(i)), master)) << view.spec->name;
            }
          }
        }
      }
    }
  }
}

// Half of float32's, unit by unit.
TEST(FsdpWire, bytes_of_unshard_are_exact) {
  const ModelSpec spec = small_model(3);
  for (const UnitPolicies& policies : all_policies()) {
    ShardedModelOptions options;
    options.policies = policies;
    ShardedModel model(world(), spec, make_plan(spec, world().size()), options);
    const std::int64_t before = world().bytes()[Purpose::unshard];
    std::int64_t expected = 0;
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      model.reshard(u);
      const bool half = policy_of(policies, spec.units[u].name).param_dtype == DType::bfloat16;
      expected += (half ? 2 : 4) * (world().size() - 1) * model.plan().units[u].weights.size;
    }
    EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before), expected);
  }
}

TEST(FsdpWire, memory_is_what_the_plan_predicts) {
  const ModelSpec spec = small_model(4);
  for (const UnitPolicies& policies : all_policies()) {
    for (const int prefetch : {0, 2}) {
      for (const std::int64_t passes : {1, 3}) {
        for (const bool replicated : {false, true}) {
          ShardedModelOptions options;
          options.prefetch = prefetch;
          options.passes = passes;
          options.policies = policies;
          const Plan plan = plan_for(spec, replicated);
          const ShardedModel model(world(), spec, plan, options);
          MemoryOptions memory;
          memory.prefetch = prefetch;
          memory.passes = passes;
          memory.policies = policies;
          const PlanReport predicted = report(spec, plan, memory);
          const MemoryUse use = model.memory();
          EXPECT_EQ(use.total() - use.weights - use.gradients,
                    predicted.ranks[static_cast<std::size_t>(world().rank())].window_bytes)
              << "prefetch " << prefetch << " passes " << passes << " replicated " << replicated;
        }
      }
    }
  }
}

void run_passes(ShardedModel& model, std::int64_t passes) {
  model.begin_step();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const auto micro_batch = static_cast<std::uint64_t>(pass * world().size() + world().rank());
    model.begin_pass();
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      for (const TensorView<float>& gradient : model.gradients(u)) {
        for (std::size_t i = 0; i < gradient.size(); ++i)
          gradient(i) = wire_value_at(micro_batch, static_cast<std::int64_t>(i));
      }
      model.reduce(u);
    }
  }
}

// CASES 9, 10, 27: under every planner policy, and replicated, the left fold of gradients that were each rounded once.
TEST(FsdpWire, gradients_are_rounded_once_and_summed_in_float32) {
  const ModelSpec spec = small_model(3);
  for (const std::int64_t passes : {1, 3}) {
    ShardedModelOptions options;
    options.passes = passes;
    options.policies.all.reduce_dtype = DType::bfloat16;
    for (const Plan& plan : {plan_for(spec, false), plan_for(spec, true)}) {
      ShardedModel model(world(), spec, plan, options);
      const std::int64_t before = world().bytes()[Purpose::reduce];
      run_passes(model, passes);
      for (const ParameterView& view : model.trainable()) {
        for (std::int64_t i = 0; i < view.elements.size(); ++i) {
          const float expected = testing::folded_rounded(view.elements.begin + i, passes * world().size());
          ASSERT_TRUE(same(view.gradient(static_cast<std::size_t>(i)), expected))
              << view.spec->name << " element " << view.elements.begin + i << ", " << plan.planner;
        }
      }
      const testing::ReductionBytes bytes = testing::reduction_bytes(plan, passes, DType::bfloat16);
      // Of a replicated plan, all ranks get all sums, which are float32: twice what the exchange of gradients takes.
      const std::int64_t to_all = plan.replicated ? 2 * bytes.exchange : bytes.to_owners;
      EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::reduce] - before), passes * bytes.exchange + to_all);
    }
  }
}

// Rounded weights have storage of their own everywhere, so the same program is right or wrong at any number of ranks.
TEST(FsdpWire, storage_in_use_is_not_given_away) {
  const ModelSpec spec = small_model(2);
  ShardedModelOptions options;
  options.prefetch = 0;  // one slot
  options.policies.all.param_dtype = DType::bfloat16;
  for (const bool replicated : {false, true}) {
    ShardedModel model(world(), spec, plan_for(spec, replicated), options);
    model.unshard(1, Phase::forward);
    const std::string message = test::message_of<ContractError>([&] { model.unshard(2, Phase::forward); });
    EXPECT_TRUE(test::mentions(message, {"block.0", "block.1"}));
  }
}

TEST(FsdpWire, a_policy_of_an_unknown_unit_is_bad_input) {
  const ModelSpec spec = small_model(2);
  ShardedModelOptions options;
  options.policies.by_unit["block.7"] = {};
  const std::string message =
      test::message_of<InputError>([&] { ShardedModel(world(), spec, make_plan(spec, world().size()), options); });
  EXPECT_EQ(message, "policy of unit 'block.7': expected one of root, block.0, block.1");
}

// One rank would read 2 bytes where another sends 4.
TEST(FsdpWire, different_policies_are_an_error_at_start) {
  if (world().size() == 1) return;  // nobody to disagree with
  const ModelSpec spec = small_model(2);
  for (const bool of_all : {false, true}) {
    Communicator own = testing::duplicate_world();
    ShardedModelOptions options;
    UnitPolicy& policy = of_all ? options.policies.all : options.policies.by_unit["block.1"];
    if (own.rank() == 1) policy.reduce_dtype = DType::bfloat16;
    const std::string message =
        test::message_of<CommunicationError>([&] { ShardedModel(own, spec, make_plan(spec, own.size()), options); });
    EXPECT_TRUE(test::mentions(message, {"model options"}));
  }
}

}  // namespace
}  // namespace matrixfsdp
