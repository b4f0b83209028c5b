#include <fmt/format.h>

#include <matrixfsdp/schema/checkpoint_writer.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/foreign_source.hpp"
#include "apps/ckpt/report.hpp"

namespace matrixfsdp::ckpt {

int import_tensors(const Command& command) {
  ForeignSource source(command);
  PlannerOptions planner = command.planner;
  if (command.optimizer == StateOptimizer::adamw) planner.optimizer.matrices = MatrixOptimizer::adamw;
  io::Manifest manifest;
  manifest.state.seed = static_cast<std::uint64_t>(command.seed);
  manifest.model = source.model();
  const std::int64_t elements = element_count(manifest.model);
  const Plan plan = make_plan(manifest.model, static_cast<int>(command.ranks), planner);
  const std::string folder = io::write_checkpoint(command.target, std::move(manifest), plan, source);
  if (command.json) {
    print_json({{"checkpoint", folder},
                {"files", command.files},
                {"elements", elements},
                {"world_size", plan.world_size},
                {"planner", plan.planner}});
  } else {
    fmt::print("{}: {} elements, laid out for {} ranks by planner {}\n", folder, elements, plan.world_size,
               plan.planner);
  }
  return exit_ok;
}

}  // namespace matrixfsdp::ckpt
