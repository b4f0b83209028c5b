#include <bit>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/messages.hpp"
#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

/// Units that are unsharded and reduced in different ways.
namespace matrixfsdp {
namespace {

using testing::parameter;
using testing::world;

ModelSpec three_units() {
  ModelSpec spec;
  for (const char* name : {"root", "one", "two"}) {
    spec.units.push_back(
        {name,
         {parameter(std::string(name) + ".large", {90, 70}), parameter(std::string(name) + ".small", {6, 4}),
          parameter(std::string(name) + ".bias", {31})},
         spec.units.empty()});
  }
  return spec;
}

ShardedModelOptions options_of(const std::vector<UnitAlgorithms>& collectives) {
  ShardedModelOptions options;
  options.passes = 2;
  options.unit_collectives = collectives;
  return options;
}

std::vector<UnitAlgorithms> mixed() {
  return {{CollectiveAlgorithm::tree, CollectiveAlgorithm::direct},
          {CollectiveAlgorithm::chain, CollectiveAlgorithm::tree},
          {CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::chain}};
}

/// A step of two passes whose sums depend on their order; all that came of it, as bits.
std::vector<std::uint32_t> step_of(const std::vector<UnitAlgorithms>& collectives) {
  const ModelSpec spec = three_units();
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options_of(collectives));
  std::vector<std::uint32_t> bits;
  const auto add = [&bits](const TensorView<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      bits.push_back(std::bit_cast<std::uint32_t>(values(i)));
  };
  model.begin_step();
  for (int pass = 0; pass < 2; ++pass) {
    model.begin_pass();
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      for (const TensorView<float>& weights : model.weights(u))
        add(weights);
      for (const TensorView<float>& gradients : model.gradients(u)) {
        for (std::size_t i = 0; i < gradients.size(); ++i)
          gradients(i) = 1.0F / static_cast<float>(3 + i + 7 * static_cast<std::size_t>(world().rank() + 13 * pass));
      }
      model.reshard(u);
      model.reduce(u);
    }
  }
  for (const ParameterView& view : model.trainable())
    add(view.gradient);
  MemoryOptions memory;
  memory.passes = 2;
  memory.collectives = collectives;
  memory.topology = mpi::topology_of(world());
  const PlanReport predicted = report(spec, model.plan(), memory);
  const MemoryUse use = model.memory();
  EXPECT_EQ(use.total() - use.weights - use.gradients,
            predicted.ranks[static_cast<std::size_t>(world().rank())].window_bytes);
  return bits;
}

TEST(FsdpCollectives, every_unit_has_its_own_and_the_bits_are_the_same) {
  const std::vector<std::uint32_t> expected = step_of({});
  EXPECT_EQ(step_of(mixed()), expected);
  EXPECT_EQ(step_of({{CollectiveAlgorithm::allgatherv, CollectiveAlgorithm::scatter}, {}, {}}), expected);
  EXPECT_EQ(step_of({{CollectiveAlgorithm::direct, CollectiveAlgorithm::hierarchical}, {}, {}}), expected);
}

TEST(FsdpCollectives, what_is_refused) {
  const ModelSpec spec = three_units();
  const auto make = [&](const std::vector<UnitAlgorithms>& collectives) {
    ShardedModel model(world(), spec, make_plan(spec, world().size()), options_of(collectives));
  };
  EXPECT_TRUE(test::mentions(test::message_of<ContractError>([&] { make({{}, {}}); }), {"2 units", "3 units"}));
  std::vector<UnitAlgorithms> bad = mixed();
  bad[1].reduce = CollectiveAlgorithm::padded;
  EXPECT_TRUE(test::mentions(test::message_of<ContractError>([&] { make(bad); }), {"padded", "only unshards"}));
  MemoryOptions memory;
  memory.collectives = {{}, {}};
  EXPECT_THROW(report(spec, make_plan(spec, world().size()), memory), ContractError);
}

TEST(FsdpCollectives, another_choice_on_one_rank_is_an_error_on_all) {
  if (world().size() == 1) return;
  Communicator communicator = testing::duplicate_world();
  std::vector<UnitAlgorithms> mine = mixed();
  if (world().rank() == 1) mine[2].unshard = CollectiveAlgorithm::chain;
  const ModelSpec spec = three_units();
  const std::string message = test::message_of<CommunicationError>(
      [&] { ShardedModel model(communicator, spec, make_plan(spec, world().size()), options_of(mine)); });
  EXPECT_TRUE(test::mentions(message, {"model options", "rank 1"}));
}

}  // namespace
}  // namespace matrixfsdp
