#include <algorithm>

#include <fmt/format.h>

#include "support/checkpoint_run.hpp"

/// Checkpoints of Shampoo and SOAP: their factors have extents of their own, and move whole with the matrix.
namespace matrixfsdp {
namespace {

using testing::assemble;
using testing::checkpoint_model;
using testing::CheckpointRun;
using testing::on_first_ranks;
using testing::SharedFolder;
using testing::training_state;
using testing::world;

/// small_model's matrices have up to 18 rows: with blocks of 5 Shampoo has several of one matrix.
CheckpointRun run_of(Communicator& part, MatrixOptimizer matrices, std::int64_t block_size = 1024,
                     Policy policy = Policy::balanced) {
  PlannerOptions planner;
  planner.policy = policy;
  RoutingOptions options;
  options.matrices = matrices;
  options.shampoo.preconditioner.frequency = options.soap.preconditioner.frequency = 2;
  options.shampoo.preconditioner.block_size = block_size;
  return {part, make_plan(checkpoint_model(), part.size(), planner), checkpoint_model(), options};
}

class FactoredCheckpoint : public ::testing::TestWithParam<MatrixOptimizer> {};

// CASES 49, 50, 52, 53: three steps on any W, saved, and three on any other, are six on one rank, in every bit.
TEST_P(FactoredCheckpoint, AnyWorldSizeGoesOnFromAnyOther) {
  for (const std::int64_t block_size : {1024, 5}) {
    const SharedFolder folder(world());
    on_first_ranks(1, [&](Communicator& part) {
      CheckpointRun whole = run_of(part, GetParam(), block_size);
      for (int step = 1; step <= 6; ++step)
        whole.step(step);
      io::save_checkpoint(folder / "whole", whole.model, *whole.optimizer, training_state(6));
    });
    for (int from = 1; from <= world().size(); ++from) {
      const std::string parts = folder / fmt::format("from{}", from);
      on_first_ranks(from, [&](Communicator& part) {
        CheckpointRun first = run_of(part, GetParam(), block_size, Policy::role);
        for (int step = 1; step <= 3; ++step)
          first.step(step);
        io::save_checkpoint(parts, first.model, *first.optimizer, training_state(3));
      });
      const int to = world().size() + 1 - from;
      on_first_ranks(to, [&](Communicator& part) {
        CheckpointRun second = run_of(part, GetParam(), block_size);
        io::load_checkpoint(parts + "/step_00000003", second.model, *second.optimizer);
        for (int step = 4; step <= 6; ++step)
          second.step(step);
        io::save_checkpoint(parts, second.model, *second.optimizer, training_state(6));
      });
      EXPECT_EQ(assemble(parts + "/step_00000006"), assemble(folder / "whole/step_00000006")) << from << " to " << to;
    }
  }
}

TEST_P(FactoredCheckpoint, StatesAreDatasetsWithTheirOwnExtents) {
  const SharedFolder folder(world());
  CheckpointRun run = run_of(world(), GetParam());
  run.step(1);
  io::save_checkpoint(folder / "a", run.model, *run.optimizer, training_state(1));
  const io::Manifest manifest = io::read_manifest(folder / "a/step_00000001");
  std::map<std::string_view, const ParameterSpec*> specs;
  for (const UnitSpec& unit : manifest.model.units) {
    for (const ParameterSpec& spec : unit.parameters)
      specs[spec.name] = &spec;
  }
  std::int64_t squares = 0;
  for (const io::StoredSegment& segment : manifest.segments) {
    if (segment.what != "left_factor") continue;
    const ParameterSpec& spec = *specs.at(segment.parameter);
    EXPECT_EQ(segment.optimizer, name_of(GetParam()));
    EXPECT_EQ(segment.dataset, "/optimizer/" + segment.parameter + "/left_factor");
    ASSERT_TRUE(segment.shape);
    const io::TensorFileReader reader(folder / ("a/step_00000001/" + segment.file));
    EXPECT_EQ(reader.info(segment.dataset).global_shape, *segment.shape);
    if (matrix_parts(spec).size() > 1) continue;
    EXPECT_EQ(*segment.shape, (Shape{spec.shape[0], spec.shape[0]}));
    ++squares;
  }
  EXPECT_GT(squares, 0);
}

// CASES 57: load is strict about whose state there is, and about its extents.
TEST_P(FactoredCheckpoint, AnotherOptimizersStateIsRefusedByName) {
  const SharedFolder folder(world());
  CheckpointRun saved = run_of(world(), GetParam());
  saved.step(1);
  io::save_checkpoint(folder / "a", saved.model, *saved.optimizer, training_state(1));
  for (const MatrixOptimizer other : matrix_optimizers()) {
    if (other == GetParam()) continue;
    CheckpointRun run = run_of(world(), other);
    const std::string message = testing::common_message_of<InputError>(
        world(), [&] { io::load_checkpoint(folder / "a/step_00000001", run.model, *run.optimizer); });
    EXPECT_NE(message.find("optimizer state of '"), std::string::npos) << message;
    EXPECT_NE(message.find("left_factor"), std::string::npos) << message;
  }
  if (GetParam() != MatrixOptimizer::shampoo) return;
  CheckpointRun run = run_of(world(), GetParam(), 5);
  const std::string message = testing::common_message_of<InputError>(
      world(), [&] { io::load_checkpoint(folder / "a/step_00000001", run.model, *run.optimizer); });
  EXPECT_NE(message.find("in the checkpoint; expected ("), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(optimizers, FactoredCheckpoint,
                         ::testing::Values(MatrixOptimizer::shampoo, MatrixOptimizer::soap),
                         [](const auto& given) { return std::string(name_of(given.param)); });

}  // namespace
}  // namespace matrixfsdp
