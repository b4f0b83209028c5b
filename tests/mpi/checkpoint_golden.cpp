#include "support/checkpoint_run.hpp"
#include "support/golden_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::CheckpointRun;
using testing::golden_folder;
using testing::golden_model;
using testing::golden_value;
using testing::world;

// Checkpoints of earlier programs load, at any W.
TEST(Checkpoint, GoldenOnesLoad) {
  CheckpointRun run(world(), make_plan(golden_model(), world().size()), golden_model());
  const io::TrainingState state = io::load_checkpoint(golden_folder(2), run.model, *run.optimizer);
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.sum_group, 2);
  const auto expect = [](const ParameterView& view, const std::string& what, const TensorView<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t element = view.elements.begin + static_cast<std::int64_t>(i);
      EXPECT_EQ(values(i), golden_value(view.spec->name, what, element)) << view.spec->name << ' ' << what;
    }
  };
  for (const ParameterView& view : run.model.resident())
    expect(view, "weight", view.weight);
  for (const StateView& state_view : run.optimizer->state())
    expect(run.optimizer->views()[state_view.view], state_view.name, state_view.values);
}

}  // namespace
}  // namespace matrixfsdp
