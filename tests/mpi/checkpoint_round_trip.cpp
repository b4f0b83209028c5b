#include <algorithm>
#include <array>
#include <set>

#include <nlohmann/json.hpp>

#include "support/checkpoint_run.hpp"

namespace matrixfsdp {
namespace {

using testing::assemble;
using testing::checkpoint_model;
using testing::CheckpointRun;
using testing::on_first_ranks;
using testing::on_rank_zero;
using testing::SharedFolder;
using testing::training_state;
using testing::world;

constexpr std::array policies{Policy::balanced, Policy::role, Policy::scope, Policy::cost};

Plan plan_for(const ModelSpec& model, int world_size, std::size_t variant) {
  PlannerOptions options;
  options.policy = policies.at(variant % policies.size());
  options.tails = variant % 2 == 0 ? TailPlacement::spread : TailPlacement::packed;
  return make_plan(model, world_size, options);
}

/// Saves what fill(1) makes on `size` ranks as step 1.
void save_on(int size, std::size_t variant, const std::string& folder) {
  on_first_ranks(size, [&](Communicator& part) {
    CheckpointRun run(part, plan_for(checkpoint_model(), size, variant));
    run.fill(1);
    EXPECT_EQ(io::save_checkpoint(folder, run.model, *run.optimizer, training_state(1)), folder + "/step_00000001");
  });
}

/// Every weight and state of a run that loads what save_on has saved, bit for bit.
void expect_equal_after_load(Communicator& part, const Plan& plan, const std::string& step_folder) {
  CheckpointRun run(part, plan);
  run.fill(2);
  io::load_checkpoint(step_folder, run.model, *run.optimizer);
  CheckpointRun expected(part, plan);
  expected.fill(1);
  for (std::size_t i = 0; i < run.model.resident().size(); ++i) {
    const ParameterView& view = run.model.resident()[i];
    const auto& weight = expected.model.resident()[i].weight;
    EXPECT_TRUE(std::equal(weight.data(), weight.data() + weight.size(), view.weight.data())) << view.spec->name;
  }
  const auto states = run.optimizer->state();
  const auto expected_states = expected.optimizer->state();
  ASSERT_EQ(states.size(), expected_states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& values = expected_states[i].values;
    EXPECT_TRUE(std::equal(values.data(), values.data() + values.size(), states[i].values.data()))
        << states[i].name << " of " << run.optimizer->views()[states[i].view].spec->name;
  }
}

// CASES 49, 52, 53: every tensor and state, from any W and planner to any other.
TEST(Checkpoint, AnyWorldSizeReadsAnyOther) {
  const int ranks = world().size();
  std::vector<std::pair<int, int>> pairs;
  for (int size = 1; size <= ranks; ++size) {
    pairs.emplace_back(1, size);
    pairs.emplace_back(ranks, size);
    pairs.emplace_back(size, ranks);
  }
  std::size_t variant = 0;
  for (const auto& [from, to] : std::set<std::pair<int, int>>(pairs.begin(), pairs.end())) {
    SCOPED_TRACE("from W = " + std::to_string(from) + " to " + std::to_string(to));
    const SharedFolder folder(world());
    save_on(from, ++variant, folder / "a");
    on_first_ranks(to, [&, size = to](Communicator& part) {
      expect_equal_after_load(part, plan_for(checkpoint_model(), size, variant + 1), folder / "a/step_00000001");
    });
  }
}

// Between the largest W here and each of 1, 2, 3, 4 and 8 (with the numbers of ranks that this test runs on, all pairs
// of those), every planner policy is saved, and every one is loaded, with tails spread or packed (CASES 51).
TEST(Checkpoint, EveryPlannerBetweenAllWorldSizes) {
  const int ranks = world().size();
  std::set<std::pair<int, int>> pairs;
  for (const int size : {1, 2, 3, 4, 8}) {
    if (size > ranks) continue;
    pairs.emplace(size, ranks);
    pairs.emplace(ranks, size);
  }
  std::size_t turn = 0;
  for (const auto& [from, to] : pairs) {
    ++turn;
    for (std::size_t saved = 0; saved < policies.size(); ++saved) {
      const SharedFolder folder(world());
      save_on(from, saved, folder / "a");
      on_first_ranks(to, [&, size = to](Communicator& part) {
        expect_equal_after_load(part, plan_for(checkpoint_model(), size, saved + turn), folder / "a/step_00000001");
      });
    }
  }
}

// CASES 49, 50: a step after a load is the step that would have been, at another W too.
TEST(Checkpoint, NextStepIsTheSame) {
  const SharedFolder folder(world());
  CheckpointRun run(world(), plan_for(checkpoint_model(), world().size(), 0));
  run.fill(1);
  run.step(1);
  io::save_checkpoint(folder / "a", run.model, *run.optimizer, training_state(1));
  run.step(2);
  io::save_checkpoint(folder / "a", run.model, *run.optimizer, training_state(2));
  for (int size = 1; size <= world().size(); ++size) {
    const std::string other = folder / std::to_string(size);
    on_first_ranks(size, [&](Communicator& part) {
      CheckpointRun resumed(part, plan_for(checkpoint_model(), size, 1));
      io::load_checkpoint(folder / "a/step_00000001", resumed.model, *resumed.optimizer);
      resumed.step(2);
      io::save_checkpoint(other, resumed.model, *resumed.optimizer, training_state(2));
    });
    on_rank_zero(world(), [&] { EXPECT_EQ(assemble(other + "/step_00000002"), assemble(folder / "a/step_00000002")); });
  }
}

// CASES 57: the rest of the state.
TEST(Checkpoint, TrainingStateComesBack) {
  const SharedFolder folder(world());
  CheckpointRun run(world(), plan_for(checkpoint_model(), world().size(), 0));
  io::TrainingState saved = training_state(12);
  saved.sum_group = 2;
  saved.loss = 0.1;
  io::save_checkpoint(folder / "a", run.model, *run.optimizer, saved);
  const io::TrainingState state = io::load_checkpoint(folder / "a/step_00000012", run.model, *run.optimizer);
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.optimizer_steps, 11);
  EXPECT_EQ(state.seed, 0xfedcba9876543210ULL);
  EXPECT_EQ(state.data_step, 12);
  EXPECT_EQ(state.sum_group, 2);
  EXPECT_EQ(state.loss, 0.1);
  EXPECT_EQ(nlohmann::json::parse(state.schedule), nlohmann::json({{"kind", "cosine"}, {"total_steps", 40}}));
  EXPECT_EQ(nlohmann::json::parse(state.configuration), nlohmann::json({{"lr", 0.1}}));
}

// An unsharded copy of before the load is stale.
TEST(Checkpoint, LoadReachesUnshardedWeights) {
  const SharedFolder folder(world());
  save_on(world().size(), 0, folder / "a");
  CheckpointRun run(world(), plan_for(checkpoint_model(), world().size(), 1));
  run.model.unshard(0, Phase::forward);
  run.model.reshard(0);
  io::load_checkpoint(folder / "a/step_00000001", run.model, *run.optimizer);
  run.model.unshard(0, Phase::forward);
  const auto tensors = assemble(folder / "a/step_00000001");
  const auto& table = run.model.weights(0)[0];
  EXPECT_EQ(std::vector<float>(table.data(), table.data() + table.size()), tensors.at("table/weight"));
  run.model.reshard(0);
}

// CASES 7, 16: a parameter without elements is kept, a tied one has one entry.
TEST(Checkpoint, HasEveryNameOnce) {
  const SharedFolder folder(world());
  save_on(world().size(), 0, folder / "a");
  const auto tensors = assemble(folder / "a/step_00000001");
  EXPECT_TRUE(tensors.contains("nothing/weight"));
  EXPECT_TRUE(tensors.at("nothing/weight").empty());
  EXPECT_FALSE(tensors.contains("nothing/first_moment"));
  EXPECT_EQ(tensors.at("temperature/weight").size(), 1U);
  EXPECT_TRUE(tensors.contains("table/second_moment"));
  EXPECT_FALSE(tensors.contains("head/weight"));
  EXPECT_TRUE(tensors.contains("block.0.up/momentum"));
  EXPECT_TRUE(tensors.contains("block.1.frozen/weight"));
  EXPECT_FALSE(tensors.contains("block.1.frozen/momentum"));
}

// ddp: everybody holds everything, rank 0 writes.
TEST(Checkpoint, ReplicatedAndShardedReadEachOther) {
  const SharedFolder folder(world());
  const int ranks = world().size();
  CheckpointRun replicated(world(), make_replicated_plan(checkpoint_model(), ranks));
  replicated.fill(1);
  io::save_checkpoint(folder / "replicated", replicated.model, *replicated.optimizer, training_state(1));
  EXPECT_EQ(io::read_manifest(folder / "replicated/step_00000001").files.size(), 2U);  // and the index
  save_on(ranks, 0, folder / "sharded");
  EXPECT_EQ(assemble(folder / "replicated/step_00000001"), assemble(folder / "sharded/step_00000001"));

  replicated.fill(2);
  io::load_checkpoint(folder / "sharded/step_00000001", replicated.model, *replicated.optimizer);
  io::save_checkpoint(folder / "again", replicated.model, *replicated.optimizer, training_state(1));
  EXPECT_EQ(assemble(folder / "again/step_00000001"), assemble(folder / "sharded/step_00000001"));
}

// CASES 5, 6: ranks that hold nothing write nothing, and take part.
TEST(Checkpoint, SpareRanksHaveNoFile) {
  ModelSpec model;
  model.units.push_back({"root", {testing::parameter("only", {6, 4})}, true});
  const SharedFolder folder(world());
  CheckpointRun run(world(), plan_for(model, world().size(), 0), model);
  run.fill(1);
  io::save_checkpoint(folder / "a", run.model, *run.optimizer, training_state(1));
  EXPECT_EQ(io::read_manifest(folder / "a/step_00000001").files.size(), 2U);  // and the index
  run.fill(2);
  io::load_checkpoint(folder / "a/step_00000001", run.model, *run.optimizer);
  io::save_checkpoint(folder / "b", run.model, *run.optimizer, training_state(1));
  EXPECT_EQ(assemble(folder / "a/step_00000001"), assemble(folder / "b/step_00000001"));
}

}  // namespace
}  // namespace matrixfsdp
