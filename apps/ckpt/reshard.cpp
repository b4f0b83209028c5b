#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/checkpoint_writer.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/locate.hpp"
#include "apps/ckpt/report.hpp"

namespace matrixfsdp::ckpt {
namespace {

/// The tensors of another checkpoint, as they are.
class CheckpointSource : public io::TensorSource {
 public:
  explicit CheckpointSource(io::CheckpointReader& reader) : reader_(reader) {}

  std::vector<io::TensorKind> kinds(const ParameterSpec& parameter) override {
    const auto kind = [](const io::StoredSegment& segment) {
      return io::TensorKind{segment.what, segment.optimizer, segment.dtype, segment.shape};
    };
    std::vector<io::TensorKind> kinds{kind(*reader_.tensors().at({parameter.name, io::weight_name}).front())};
    for (auto at = reader_.tensors().lower_bound({parameter.name, ""});
         at != reader_.tensors().end() && at->first.first == parameter.name; ++at) {
      if (at->first.second != io::weight_name) kinds.push_back(kind(*at->second.front()));
    }
    return kinds;
  }

  void read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) override {
    const auto width = static_cast<std::int64_t>(size_of(kind.dtype));
    reader_.read(parameter.name, kind.what, [&](std::int64_t first, std::span<const std::byte> block) {
      std::copy(block.begin(), block.end(), values.begin() + first * width);
    });
  }

 private:
  io::CheckpointReader& reader_;
};

/// Whose state matrices have: each costs and weighs otherwise, and the planner balances it.
MatrixOptimizer matrix_optimizer_of(const io::Manifest& manifest) {
  for (const MatrixOptimizer optimizer : matrix_optimizers()) {
    if (optimizer == MatrixOptimizer::adamw) continue;
    for (const io::StoredSegment& segment : manifest.segments) {
      if (segment.optimizer == name_of(optimizer)) return optimizer;
    }
  }
  return MatrixOptimizer::adamw;
}

}  // namespace

int reshard(const Command& command) {
  io::CheckpointReader reader(locate(command.source));
  PlannerOptions planner = command.planner;
  planner.optimizer.matrices = matrix_optimizer_of(reader.manifest());
  io::Manifest manifest;
  manifest.state = reader.manifest().state;
  manifest.model = reader.manifest().model;
  const Plan plan = make_plan(manifest.model, static_cast<int>(command.ranks), planner);
  CheckpointSource source(reader);
  const std::string folder = io::write_checkpoint(command.target, std::move(manifest), plan, source);
  if (command.json) {
    print_json({{"checkpoint", folder},
                {"source", reader.folder()},
                {"world_size", plan.world_size},
                {"planner", plan.planner},
                {"step", reader.manifest().state.step}});
  } else {
    fmt::print("{}: {} as {} ranks with planner {} would have saved it\n", folder, reader.folder(), plan.world_size,
               plan.planner);
  }
  return exit_ok;
}

}  // namespace matrixfsdp::ckpt
