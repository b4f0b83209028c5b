#include <gtest/gtest.h>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

/// Parameters of equal shapes, which nothing but their names tells apart: no exchange of two of them can show as a
/// wrong size.
namespace matrixfsdp {
namespace {

using testing::parameter;
using testing::world;

ModelSpec twins() {
  ModelSpec spec;
  for (const char* unit_name : {"root", "one", "two"}) {
    UnitSpec unit{unit_name, {}, spec.units.empty()};
    for (const char* name : {"a", "b", "c", "d"})
      unit.parameters.push_back(parameter(unit.name + "." + name, {6, 4}));
    for (const char* name : {"v", "w"})
      unit.parameters.push_back(parameter(unit.name + "." + name, {24}));
    spec.units.push_back(unit);
  }
  return spec;
}

float mark(const ParameterSpec& spec, std::int64_t element, int rank) {
  return static_cast<float>(stream_of(spec.name) % 1000 + static_cast<std::uint64_t>(element)) * 0.5F +
         static_cast<float>(rank);
}

template <class Check>
void for_every_policy(const Check& check) {
  for (const Policy policy : {Policy::role, Policy::scope, Policy::balanced}) {
    for (const TailPlacement tails : {TailPlacement::packed, TailPlacement::spread}) {
      PlannerOptions planner;
      planner.policy = policy;
      planner.tails = tails;
      const ModelSpec spec = twins();
      ShardedModel model(world(), spec, make_plan(spec, world().size(), planner), {});
      check(model);
    }
  }
}

TEST(FsdpTwins, weights_go_by_name) {
  for_every_policy([](ShardedModel& model) {
    for (const ParameterView& view : model.trainable()) {
      for (std::int64_t i = 0; i < view.elements.size(); ++i)
        view.weight(static_cast<std::size_t>(i)) = mark(*view.spec, view.elements.begin + i, 0);
    }
    model.weights_changed();
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      const UnitSpec& unit = model.spec().units[u];
      for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
        const TensorView<float> values = model.weights(u)[p];
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_EQ(values(i), mark(unit.parameters[p], static_cast<std::int64_t>(i), 0)) << unit.parameters[p].name;
      }
      model.reshard(u);
    }
  });
}

TEST(FsdpTwins, gradients_go_by_name) {
  for_every_policy([](ShardedModel& model) {
    model.begin_step();
    model.begin_pass();
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      const UnitSpec& unit = model.spec().units[u];
      for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
        const TensorView<float> values = model.gradients(u)[p];
        for (std::size_t i = 0; i < values.size(); ++i)
          values(i) = mark(unit.parameters[p], static_cast<std::int64_t>(i), world().rank());
      }
      model.reduce(u);
    }
    for (const ParameterView& view : model.trainable()) {
      for (std::int64_t i = 0; i < view.elements.size(); ++i) {
        float expected = 0;  // small multiples of 1/2: every order of summation is exact
        for (int rank = 0; rank < world().size(); ++rank)
          expected += mark(*view.spec, view.elements.begin + i, rank);
        ASSERT_EQ(view.gradient(static_cast<std::size_t>(i)), expected) << view.spec->name;
      }
    }
  });
}

// CASES 40: a prefetch that is under way when the weights change has the old ones; the unshard after it has the new.
TEST(FsdpTwins, a_prefetch_from_before_the_step_is_not_used_after_it) {
  for_every_policy([](ShardedModel& model) {
    model.unshard(0, Phase::forward);  // prefetches unit 1, which nobody uses before the step
    model.reshard(0);
    for (const ParameterView& view : model.trainable())
      Kokkos::deep_copy(view.weight, 7.0F);
    model.weights_changed();
    EXPECT_EQ(model.state(1), UnitState::sharded);
    model.unshard(1, Phase::forward);
    for (const TensorView<float>& values : model.weights(1)) {
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values(i), 7.0F);
    }
    model.reshard(1);
  });
}

}  // namespace
}  // namespace matrixfsdp
