#include <gtest/gtest.h>

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

namespace matrixfsdp {
namespace {

using testing::small_model;
using testing::sum_over_ranks;
using testing::world;

/// First value of element i of a parameter, straight from the definition of Initialization.
float initial_value(const ParameterSpec& spec, std::int64_t i, std::uint64_t seed) {
  if (spec.initialization.kind == Initialization::Kind::ones) return 1.0F;
  if (spec.initialization.kind == Initialization::Kind::zeros) return 0.0F;
  const CounterRandom random(seed, stream_of(spec.name));
  return static_cast<float>(spec.initialization.standard_deviation * random.normal(static_cast<std::uint64_t>(i)));
}

void expect_initial_weights(const ShardedModel& model, std::size_t unit, std::uint64_t seed) {
  const UnitTensors<float>& weights = model.weights(unit);
  const UnitSpec& spec = model.spec().units[unit];
  ASSERT_EQ(weights.size(), spec.parameters.size());
  for (std::size_t p = 0; p < weights.size(); ++p) {
    ASSERT_EQ(static_cast<std::int64_t>(weights[p].size()), element_count(spec.parameters[p].shape));
    for (std::size_t i = 0; i < weights[p].size(); ++i) {
      ASSERT_EQ(weights[p](i), initial_value(spec.parameters[p], static_cast<std::int64_t>(i), seed))
          << spec.parameters[p].name << " element " << i;
    }
  }
}

ShardedModel make(const ModelSpec& spec, Policy policy, ShardedModelOptions options = {}) {
  PlannerOptions planner;
  planner.policy = policy;
  return ShardedModel(world(), spec, make_plan(spec, world().size(), planner), options);
}

TEST(Fsdp, every_rank_unshards_the_initial_weights_under_every_policy) {
  for (const Policy policy : {Policy::role, Policy::scope, Policy::cost, Policy::balanced}) {
    ShardedModelOptions options;
    options.seed = 42;
    ShardedModel model = make(small_model(3), policy, options);
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      expect_initial_weights(model, u, 42);
      model.reshard(u);
    }
  }
}

TEST(Fsdp, unshard_after_reshard_gives_the_same_bytes_at_the_same_address) {
  for (const int prefetch : {0, 1, 2}) {
    ShardedModelOptions options;
    options.prefetch = prefetch;
    ShardedModel model = make(small_model(5), Policy::balanced, options);
    std::vector<const float*> addresses;
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      addresses.push_back(model.weights(u)[0].data());
      model.reshard(u);
    }
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      model.unshard(u, Phase::backward);
      EXPECT_EQ(model.weights(u)[0].data(), addresses[u]);
      expect_initial_weights(model, u, 1);
      model.reshard(u);
    }
  }
}

// CASES 47: a sharded parameter is never used in silence.
TEST(Fsdp, use_of_a_sharded_unit_names_it) {
  ShardedModel model = make(small_model(2), Policy::balanced);
  model.unshard(1, Phase::forward);
  model.reshard(1);
  try {
    static_cast<void>(model.weights(1));
    FAIL() << "weights of a sharded unit were given out";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("block.0"), std::string::npos) << error.what();
  }
  EXPECT_THROW(model.reshard(1), ContractError);
  EXPECT_THROW(model.unshard(99, Phase::forward), ContractError);
}

// CASES 48: uses are counted, so a second forward before a backward (recomputation) keeps the unit.
TEST(Fsdp, uses_are_counted) {
  ShardedModel model = make(small_model(2), Policy::balanced);
  model.unshard(1, Phase::forward);
  model.unshard(1, Phase::backward);
  EXPECT_EQ(model.uses(1), 2);
  model.reshard(1);
  EXPECT_EQ(model.state(1), UnitState::unsharded);
  expect_initial_weights(model, 1, 1);
  model.reshard(1);
  EXPECT_EQ(model.state(1), UnitState::sharded);
}

TEST(Fsdp, storage_in_use_is_not_given_away) {
  if (world().size() == 1) return;  // resident: no storage is shared
  ShardedModelOptions options;
  options.prefetch = 0;  // one slot
  ShardedModel model = make(small_model(2), Policy::balanced, options);
  model.unshard(1, Phase::forward);
  try {
    model.unshard(2, Phase::forward);
    FAIL() << "two units were in one slot";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("block.1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("block.0"), std::string::npos) << error.what();
  }
  expect_initial_weights(model, 1, 1);
}

/// Bytes that all ranks send to unshard one unit once.
std::int64_t unshard_bytes(const ShardedModel& model, std::size_t unit) {
  return 4 * (model.plan().world_size - 1) * model.plan().units[unit].weights.size;
}

TEST(Fsdp, bytes_of_forward_and_backward_are_exact) {
  for (const int prefetch : {0, 1, 2, 7}) {
    ShardedModelOptions options;
    options.prefetch = prefetch;
    ShardedModel model = make(small_model(5), Policy::balanced, options);
    const std::int64_t before = world().bytes()[Purpose::unshard];
    for (std::size_t u = 0; u < 6; ++u) {
      model.unshard(u, Phase::forward);
      model.reshard(u);
    }
    std::int64_t expected = 0;
    for (std::size_t u = 0; u < 6; ++u)
      expected += unshard_bytes(model, u);
    EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before), expected) << "prefetch " << prefetch;

    for (std::size_t u = 6; u-- > 0;) {
      model.unshard(u, Phase::backward);
      model.reshard(u);
    }
    // The kept root, and the units that still lie in the prefetch + 1 slots, are not fetched again.
    const std::size_t in_slots = std::min<std::size_t>(static_cast<std::size_t>(prefetch) + 1, 5);
    for (std::size_t u = 1; u < 6 - in_slots; ++u)
      expected += unshard_bytes(model, u);
    EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before), expected) << "prefetch " << prefetch;
  }
}

// The pinning policy, per unit: a kept unit has storage of its own, is not fetched again in backward, and its memory is
// what the plan predicts.
TEST(Fsdp, a_kept_unit_stays_from_forward_to_backward) {
  ModelSpec spec = small_model(4);
  spec.units[1].keep = true;
  ShardedModelOptions options;
  options.prefetch = 0;
  const Plan plan = make_plan(spec, world().size());
  ShardedModel model(world(), spec, plan, options);
  MemoryOptions memory;
  memory.prefetch = 0;
  const MemoryUse use = model.memory();
  EXPECT_EQ(use.total() - use.weights - use.gradients,
            report(spec, plan, memory).ranks[static_cast<std::size_t>(world().rank())].window_bytes);
  const ShardedModel not_kept(world(), small_model(4), plan, options);
  if (world().size() > 1) {
    EXPECT_EQ(use.unsharded, not_kept.memory().unsharded + 4 * plan.units[1].weights.size);
  }

  for (std::size_t u = 0; u < 5; ++u) {
    model.unshard(u, Phase::forward);
    model.reshard(u);
  }
  const std::int64_t before = world().bytes()[Purpose::unshard];
  std::int64_t expected = 0;
  for (std::size_t u = 5; u-- > 0;) {
    model.unshard(u, Phase::backward);
    expect_initial_weights(model, u, 1);
    model.reshard(u);
    if (u == 2 || u == 3) expected += unshard_bytes(model, u);  // 0 and 1 are kept, 4 still lies in the slot
  }
  EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before), expected);
}

// CASES 40: after a step, an unshard reads what the optimizer wrote.
TEST(Fsdp, weights_changed_makes_every_copy_stale) {
  ShardedModel model = make(small_model(3), Policy::balanced);
  for (std::size_t u = 0; u < 4; ++u) {
    model.unshard(u, Phase::forward);
    model.reshard(u);
  }
  for (const ParameterView& view : model.trainable())
    Kokkos::deep_copy(view.weight, static_cast<float>(view.unit) + 0.5F);
  model.weights_changed();
  for (std::size_t u = 0; u < 4; ++u) {
    model.unshard(u, Phase::forward);
    for (std::size_t p = 0; p < model.weights(u).size(); ++p) {
      const ParameterSpec& spec = model.spec().units[u].parameters[p];
      const TensorView<float> values = model.weights(u)[p];
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float expected =
            spec.frozen ? initial_value(spec, static_cast<std::int64_t>(i), 1) : static_cast<float>(u) + 0.5F;
        ASSERT_EQ(values(i), expected) << spec.name;
      }
    }
    model.reshard(u);
  }
}

TEST(Fsdp, weights_do_not_change_under_a_user) {
  ShardedModel model = make(small_model(2), Policy::balanced);
  model.unshard(2, Phase::forward);
  EXPECT_THROW(model.weights_changed(), ContractError);
}

// The plan predicts what the runtime holds, to the byte.
TEST(Fsdp, memory_is_what_the_plan_predicts) {
  for (const int prefetch : {0, 1, 3}) {
    for (const std::int64_t passes : {1, 3}) {
      for (const Accumulation accumulation : {Accumulation::chunks, Accumulation::unsharded}) {
        for (const bool replicated : {false, true}) {
          ShardedModelOptions options;
          options.prefetch = prefetch;
          options.reduces_in_flight = prefetch;
          options.passes = passes;
          options.accumulation = accumulation;
          const ModelSpec spec = small_model(4);
          const Plan plan = replicated ? make_replicated_plan(spec, world().size()) : make_plan(spec, world().size());
          const ShardedModel model(world(), spec, plan, options);
          MemoryOptions memory;
          memory.prefetch = prefetch;
          memory.reduces_in_flight = prefetch;
          memory.passes = passes;
          memory.unsharded_accumulation = accumulation == Accumulation::unsharded;
          const PlanReport predicted = report(spec, plan, memory);
          const RankLoad& load = predicted.ranks[static_cast<std::size_t>(world().rank())];
          const MemoryUse use = model.memory();
          EXPECT_EQ(use.total() - use.weights - use.gradients, load.window_bytes)
              << "prefetch " << prefetch << " passes " << passes << " unsharded "
              << (accumulation == Accumulation::unsharded) << " replicated " << replicated;
        }
      }
    }
  }
}

// CASES 38: two ranks ask for equal-shaped units in different order.
TEST(Fsdp, a_different_order_is_an_error_that_names_both) {
  if (world().size() == 1) return;  // nobody to disagree with
  Communicator own = testing::duplicate_world();
  ShardedModelOptions options;
  options.prefetch = 0;
  const ModelSpec spec = small_model(3);
  ShardedModel model(own, spec, make_plan(spec, own.size()), options);
  const std::size_t mine = own.rank() == 1 ? 3 : 1;
  try {
    model.unshard(mine, Phase::forward);
    FAIL() << "different units were unsharded together";
  } catch (const CommunicationError& error) {
    EXPECT_NE(std::string(error.what()).find("block.0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("block.2"), std::string::npos) << error.what();
  }
}

// CASES 39: registration order differs by rank.
TEST(Fsdp, a_different_model_is_an_error_at_start) {
  if (world().size() == 1) return;  // nobody to disagree with
  Communicator own = testing::duplicate_world();
  ModelSpec spec = small_model(2);
  if (own.rank() == 1) std::swap(spec.units[1].parameters[0], spec.units[1].parameters[1]);
  EXPECT_THROW(ShardedModel(own, spec, make_plan(spec, own.size()), {}), CommunicationError);
}

}  // namespace
}  // namespace matrixfsdp
