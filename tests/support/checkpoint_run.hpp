#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "support/mpi_world.hpp"
#include "support/parts_of_world.hpp"
#include "support/stored_checkpoint.hpp"
#include "support/temporary_folder.hpp"

/// Sharded runs for tests of checkpoints.
namespace matrixfsdp::testing {

/// A model with its optimizer on the ranks of a communicator. The values of weights and state are a function of name
/// and element only, until step() changes them.
class CheckpointRun {
 public:
  CheckpointRun(Communicator& communicator, Plan plan, ModelSpec spec = checkpoint_model(),
                MatrixOptimizer matrices = MatrixOptimizer::muon, StrategyKind kind = StrategyKind::matrix_fsdp)
      : CheckpointRun(communicator, std::move(plan), std::move(spec), options_for(matrices), kind) {}

  CheckpointRun(Communicator& communicator, Plan plan, ModelSpec spec, const RoutingOptions& options,
                StrategyKind kind = StrategyKind::matrix_fsdp)
      : strategy(plan.replicated ? StrategyKind::ddp : kind, communicator, std::move(spec), std::move(plan),
                 {{}, options}),
        model(strategy.model()),
        optimizer(&strategy.optimizer()) {}

  void fill(std::uint64_t seed) {
    for (const ParameterView& view : model.resident())
      fill(seed, view, "weight", view.weight);
    for (const StateView& state : optimizer->state())
      fill(seed, optimizer->views()[state.view], state.name, state.values);
  }

  /// One optimizer step with gradients that are a function of name, element and step.
  void step(std::int64_t number) {
    for (const ParameterView& view : model.trainable())
      fill(1000 + static_cast<std::uint64_t>(number), view, "gradient", view.gradient);
    StepInput input;
    input.step = number;
    strategy.step(input);
  }

  Strategy strategy;
  ShardedModel& model;
  Optimizer* optimizer;

 private:
  static RoutingOptions options_for(MatrixOptimizer matrices) {
    RoutingOptions options;
    options.matrices = matrices;
    return options;
  }

  static void fill(std::uint64_t seed, const ParameterView& view, const std::string& what,
                   const TensorView<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values(i) = stored_value(seed, view.spec->name, what, view.elements.begin + static_cast<std::int64_t>(i));
  }
};

/// A temporary folder that all ranks know; rank 0 removes it.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& communicator) : communicator_(communicator) {
    std::string mine;
    if (communicator.rank() == 0) {
      folder_.emplace();
      mine = folder_->path();
    }
    const auto bytes =
        communicator.broadcast(Purpose::other, std::as_bytes(std::span(mine)), 0, {"folder of a test", "", ""});
    path_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  /// Waits for ranks that still read.
  ~SharedFolder() {
    if (std::uncaught_exceptions() == 0) communicator_.barrier({"end of a test", "", ""});
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  Communicator& communicator_;
  std::optional<TemporaryFolder> folder_;
  std::string path_;
};

/// A filled run on all ranks, and a folder to save into.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : folder(world()), run(world(), make_plan(checkpoint_model(), world().size())) { run.fill(1); }

  /// Names in a folder, after all ranks have come here; without the lock.
  [[nodiscard]] static std::set<std::string> entries_of(const std::string& path) {
    world().barrier({"before entries are listed", "", ""});
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      names.insert(entry.path().filename().string());
    world().barrier({"after entries are listed", "", ""});
    names.erase(".lock");
    return names;
  }

  SharedFolder folder;
  CheckpointRun run;
};

/// Runs `body` on rank 0 of the communicator; the others wait.
inline void on_rank_zero(Communicator& communicator, const std::function<void()>& body) {
  communicator.barrier({"before rank 0 acts", "", ""});
  if (communicator.rank() == 0) body();
  communicator.barrier({"after rank 0 has acted", "", ""});
}

/// What a stranger reads: every tensor whole, "PARAMETER/what", put together from the manifest and the files.
inline std::map<std::string, std::vector<float>> assemble(const std::string& step_folder) {
  const io::Manifest manifest = io::read_manifest(step_folder);
  std::map<std::string, std::vector<float>> tensors;
  for (const io::StoredSegment& segment : manifest.segments) {
    auto& values = tensors[segment.parameter + "/" + segment.what];
    const io::TensorFileReader reader(step_folder + "/" + segment.file);
    values.resize(static_cast<std::size_t>(element_count(reader.info(segment.dataset).global_shape)));
    reader.read(segment.dataset, [&](std::int64_t first, std::span<const std::byte> block) {
      std::memcpy(values.data() + segment.elements.begin + first, block.data(), block.size());
    });
  }
  return tensors;
}

/// The same message on every rank, which it returns: that of the exception E that `body` throws on each.
template <class E, class Body>
std::string common_message_of(Communicator& communicator, const Body& body) {
  const std::string mine = message_of<E>(body);
  const auto all = communicator.all_gather(Purpose::other, std::as_bytes(std::span(mine)), {"messages", "", ""});
  for (const auto& other : all) {
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(other.data()), other.size()), mine);
  }
  return mine;
}

inline io::TrainingState training_state(std::int64_t step) {
  return {step, step - 1, 0xfedcba9876543210ULL, step, R"({"kind":"cosine","total_steps":40})", R"({"lr":0.1})"};
}

}  // namespace matrixfsdp::testing
