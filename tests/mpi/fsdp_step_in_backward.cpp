#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/gradient_slots.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

// When units are stepped in backward, and what is refused.
namespace matrixfsdp {
namespace {

using testing::small_model;
using testing::world;

struct Stepped {
  explicit Stepped(const ModelSpec& spec, ShardedModelOptions options = {})
      : model(world(), spec, plan(spec), with(options)) {
    model.set_unit_step([this](std::size_t unit) {
      order.push_back(unit);
      uses.push_back(model.uses(unit));
    });
  }
  static Plan plan(const ModelSpec& spec) { return make_plan(spec, world().size()); }
  static ShardedModelOptions with(ShardedModelOptions options) {
    options.step_in_backward = true;
    return options;
  }

  void forward() {
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      model.reshard(u);
    }
  }
  void backward(std::size_t unit) {
    model.unshard(unit, Phase::backward);
    Kokkos::deep_copy(model.gradients(unit)[0], 1.0F);
    model.reshard(unit);
    model.reduce(unit);
  }
  void begin() {
    model.begin_step();
    model.begin_pass();
  }

  ShardedModel model;
  std::vector<std::size_t> order;  ///< of steps
  std::vector<int> uses;
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ContractError& error) {
    return error.what();
  }
  return {};
}

// A unit is stepped when the reduce after its own has been issued, at the latest; the last ones when backward ends.
TEST(FsdpStepInBackward, units_are_stepped_while_backward_goes_on) {
  for (const std::int64_t in_flight : {0, 1, 2}) {
    ShardedModelOptions options;
    options.reduces_in_flight = in_flight;
    Stepped stepped(small_model(5), options);
    for (int step = 0; step < 3; ++step) {
      stepped.order.clear();
      stepped.begin();
      stepped.forward();
      for (std::size_t u = 6; u-- > 0;) {
        stepped.backward(u);
        const std::size_t reduced = 6 - u;
        const auto late = world().size() == 1 ? 0 : static_cast<std::size_t>(in_flight);
        EXPECT_GE(stepped.order.size(), reduced - std::min(reduced, late)) << "unit " << u;
      }
      EXPECT_EQ(stepped.order, (std::vector<std::size_t>{5, 4, 3, 2, 1, 0}));
      stepped.model.finish_unit_steps();
      EXPECT_EQ(stepped.order.size(), 6U) << "each unit once";
      stepped.model.weights_changed();
    }
  }
}

// CASES 40: nobody fetches weights that may change.
TEST(FsdpStepInBackward, a_unit_that_has_been_reduced_is_not_unsharded_again) {
  Stepped stepped(small_model(3));
  stepped.begin();
  stepped.forward();
  stepped.backward(3);
  const std::string refused = message_of([&] { stepped.model.unshard(3, Phase::backward); });
  EXPECT_NE(refused.find("block.2"), std::string::npos) << refused;
  stepped.model.set_prefetch(2, Phase::backward, {3, 1});
  stepped.model.set_prefetch(1, Phase::backward, {3});
  const std::int64_t before = world().bytes()[Purpose::unshard];
  for (std::size_t u = 3; u-- > 0;)
    stepped.backward(u);
  EXPECT_EQ(stepped.model.state(3), UnitState::sharded) << "it was prefetched";
  const std::int64_t fetched =
      4 * (world().size() - 1) *
      (stepped.model.plan().units[2].weights.size + stepped.model.plan().units[1].weights.size);
  EXPECT_LE(testing::sum_over_ranks(world().bytes()[Purpose::unshard] - before), fetched);
  stepped.model.finish_unit_steps();
  stepped.model.weights_changed();
  EXPECT_NO_THROW(stepped.model.unshard(3, Phase::forward));
  stepped.model.reshard(3);
}

TEST(FsdpStepInBackward, a_unit_in_use_is_stepped_when_it_is_not_any_more) {
  Stepped stepped(small_model(3));
  stepped.begin();
  stepped.forward();
  for (std::size_t u = 4; u-- > 0;) {
    stepped.model.unshard(u, Phase::backward);
    stepped.model.reduce(u);
    if (u == 0) {
      EXPECT_EQ(stepped.order.size(), 3U);
      const std::string early = message_of([&] { stepped.model.finish_unit_steps(); });
      EXPECT_NE(early.find("root"), std::string::npos) << early;
    }
    stepped.model.reshard(u);
  }
  EXPECT_EQ(stepped.order, (std::vector<std::size_t>{3, 2, 1, 0}));
  EXPECT_EQ(stepped.uses, (std::vector<int>{0, 0, 0, 0}));
}

// Its gradient's storage is about to be written again.
TEST(FsdpStepInBackward, a_unit_that_stays_in_use_is_named) {
  ShardedModelOptions options;
  options.reduces_in_flight = 0;
  options.prefetch = 3;  // storage for all
  Communicator own = testing::duplicate_world();
  const ModelSpec spec = small_model(3);
  options.step_in_backward = true;
  ShardedModel model(own, spec, make_plan(spec, own.size()), options);
  model.set_unit_step([](std::size_t) {});
  model.begin_step();
  model.begin_pass();
  model.unshard(3, Phase::backward);
  model.reduce(3);
  model.unshard(2, Phase::backward);
  const std::string refused = message_of([&] { model.reduce(2); });
  EXPECT_NE(refused.find("block.1"), std::string::npos) << refused;
  EXPECT_NE(refused.find("block.2"), std::string::npos) << refused;
}

TEST(FsdpStepInBackward, it_needs_a_step_and_owners) {
  const ModelSpec spec = small_model(2);
  ShardedModelOptions options;
  EXPECT_THROW(ShardedModel(world(), spec, Stepped::plan(spec), options).set_unit_step([](std::size_t) {}),
               ContractError);
  options.step_in_backward = true;
  EXPECT_THROW(ShardedModel(world(), spec, make_replicated_plan(spec, world().size()), options), ContractError);
  EXPECT_THROW(ShardedModel(world(), spec, make_row_plan(spec, world().size()), options), ContractError);
  options.resident_weights = true;
  EXPECT_THROW(ShardedModel(world(), spec, Stepped::plan(spec), options), ContractError);
  options.resident_weights = false;
  ShardedModel model(world(), spec, Stepped::plan(spec), options);
  model.begin_step();
  model.begin_pass();
  EXPECT_NE(message_of([&] { model.reduce(2); }).find("set_unit_step"), std::string::npos);
  EXPECT_THROW(model.finish_unit_steps(), ContractError);
}

// What is left of a step that was given up is not stepped with the gradients of the next.
TEST(FsdpStepInBackward, a_step_that_was_given_up_is_forgotten) {
  ShardedModelOptions options;
  options.passes = 2;
  Stepped stepped(small_model(3), options);
  stepped.begin();
  for (std::size_t u = 4; u-- > 0;)
    stepped.model.reduce(u);
  EXPECT_TRUE(stepped.order.empty()) << "passes before the last step nothing";
  stepped.model.begin_pass();
  stepped.model.reduce(3);
  stepped.order.clear();
  stepped.begin();
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) stepped.model.begin_pass();
    EXPECT_TRUE(stepped.order.empty());
    for (std::size_t u = 4; u-- > 0;)
      stepped.model.reduce(u);
  }
  EXPECT_EQ(stepped.order, (std::vector<std::size_t>{3, 2, 1, 0}));
}

}  // namespace
}  // namespace matrixfsdp
