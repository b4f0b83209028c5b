#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "support/micro_gradients.hpp"
#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

namespace matrixfsdp {
namespace {

using testing::expect_folded_gradients;
using testing::run_step;
using testing::small_model;
using testing::sum_over_ranks;
using testing::world;

// However many reduces travel at once, in whatever way they are moved, with buffers used again and again: the same
// sums.
TEST(FsdpOverlap, sums_do_not_depend_on_what_is_under_way) {
  const ModelSpec spec = small_model(4);
  for (const std::int64_t in_flight : {0, 1, 2, 9}) {
    for (const bool thread : {false, true}) {
      for (const bool replicated : {false, true}) {
        for (const std::int64_t passes : {1, 3}) {
          ShardedModelOptions options;
          options.passes = passes;
          options.reduces_in_flight = in_flight;
          options.progress_thread = thread;
          const Plan plan = replicated ? make_replicated_plan(spec, world().size()) : make_plan(spec, world().size());
          ShardedModel model(world(), spec, plan, options);
          for (int step = 0; step < 3; ++step) {
            run_step(model, passes, [&model] { model.poll(); });
            expect_folded_gradients(model, passes * world().size());
            model.weights_changed();
          }
        }
      }
    }
  }
}

// Blocks that are too long to be sent at once: what one reduce has summed for an owner is still there when the next
// one sums.
TEST(FsdpOverlap, reduces_under_way_have_sums_of_their_own) {
  ModelSpec spec;
  for (int u = 0; u < 3; ++u) {
    const std::string name = "block." + std::to_string(u);
    spec.units.push_back({name, {testing::parameter(name + ".weight", {400, 400})}, false});
  }
  ShardedModelOptions options;
  options.reduces_in_flight = 2;
  options.progress_thread = false;
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options);
  run_step(model, 1);
  expect_folded_gradients(model, world().size());
}

// One unit, kept or not, that is reduced again while its last reduce may still travel.
TEST(FsdpOverlap, a_unit_waits_for_its_own_last_reduce) {
  for (const bool keep : {false, true}) {
    ModelSpec spec = small_model(1);
    spec.units[0].keep = keep;
    spec.units.resize(1);
    for (const bool replicated : {false, true}) {
      ShardedModelOptions options;
      options.passes = 4;
      options.reduces_in_flight = 3;
      const Plan plan = replicated ? make_replicated_plan(spec, world().size()) : make_plan(spec, world().size());
      ShardedModel model(world(), spec, plan, options);
      run_step(model, 4);
      expect_folded_gradients(model, 4 * world().size());
    }
  }
}

// Whoever never writes a gradient asks for no buffer: what is issued must be the same there.
TEST(FsdpOverlap, ranks_without_gradients_issue_the_same) {
  const ModelSpec spec = small_model(4);
  for (const bool replicated : {false, true}) {
    ShardedModelOptions options;
    options.reduces_in_flight = 2;
    const Plan plan = replicated ? make_replicated_plan(spec, world().size()) : make_plan(spec, world().size());
    ShardedModel model(world(), spec, plan, options);
    for (int step = 0; step < 2; ++step) {
      model.begin_step();
      model.begin_pass();
      for (std::size_t u = model.unit_count(); u-- > 0;) {
        if (world().rank() == 0) static_cast<void>(model.gradients(u));
        model.unshard(u, Phase::backward);
        model.reshard(u);
        model.reduce(u);
      }
      for (const ParameterView& view : model.trainable()) {
        for (std::size_t i = 0; i < view.gradient.size(); ++i)
          ASSERT_EQ(view.gradient(i), 0.0F);
      }
    }
  }
}

// CASES 46: with the thread a rank that computes long enough waits for nothing; the times say so.
TEST(FsdpOverlap, transfer_times_count_what_was_waited_for) {
  if (world().size() == 1) return;
  ShardedModelOptions options;
  options.collective = CollectiveAlgorithm::direct;
  ShardedModel model(world(), small_model(3), make_plan(small_model(3), world().size()), options);
  run_step(model, 1);  // announces
  const TransferTimes before = model.transfer_times();
  model.weights_changed();
  run_step(model, 1, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  const TransferTimes after = model.transfer_times();
  EXPECT_GT(after.unshard_under_way, before.unshard_under_way);
  EXPECT_GT(after.reduce_under_way, before.reduce_under_way);
  EXPECT_GE(after.unshard_waited, before.unshard_waited);
  EXPECT_GE(after.reduce_waited, before.reduce_waited);
}

std::int64_t unshard_bytes(const ShardedModel& model, std::size_t unit) {
  return 4 * (model.plan().world_size - 1) * model.plan().units[unit].weights.size;
}

// An explicit list says what is fetched ahead; an empty one, that nothing is.
TEST(FsdpOverlap, prefetch_lists_are_followed) {
  if (world().size() == 1) return;  // resident
  ShardedModelOptions options;
  options.prefetch = 2;  // three slots
  ShardedModel model(world(), small_model(5), make_plan(small_model(5), world().size()), options);
  const std::int64_t before = world().bytes()[Purpose::unshard];
  model.set_prefetch(1, Phase::forward, {3, 2});
  model.set_prefetch(2, Phase::forward, {});
  model.unshard(1, Phase::forward);
  EXPECT_EQ(model.state(2), UnitState::unsharding);
  EXPECT_EQ(model.state(3), UnitState::unsharding);
  model.reshard(1);
  model.unshard(2, Phase::forward);
  EXPECT_EQ(model.state(4), UnitState::sharded);
  model.reshard(2);
  model.unshard(3, Phase::forward);  // no list: the next two, 4 in the slot of 1, 5 in that of 2
  EXPECT_EQ(model.state(4), UnitState::unsharding);
  EXPECT_EQ(model.state(5), UnitState::unsharding);
  model.reshard(3);
  model.unshard(4, Phase::forward);
  model.unshard(5, Phase::forward);
  model.reshard(4);
  model.reshard(5);
  std::int64_t expected = 0;
  for (std::size_t u = 1; u <= 5; ++u)
    expected += unshard_bytes(model, u);
  EXPECT_EQ(sum_over_ranks(world().bytes()[Purpose::unshard] - before), expected) << "each once";
  EXPECT_THROW(model.set_prefetch(6, Phase::forward, {}), ContractError);
  EXPECT_THROW(model.set_prefetch(1, Phase::forward, {6}), ContractError);
}

TEST(FsdpOverlap, negative_numbers_are_refused) {
  ShardedModelOptions options;
  options.reduces_in_flight = -1;
  const ModelSpec spec = small_model(1);
  EXPECT_THROW(ShardedModel(world(), spec, make_plan(spec, world().size()), options), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
