#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/plan/transformer.hpp>
#include <matrixfsdp/schema/collective_profile.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/machine_description.hpp>
#include <matrixfsdp/schema/optimizer_profile.hpp>

#include "apps/plan/command_line.hpp"
#include "apps/plan/machine.hpp"
#include "apps/plan/output.hpp"
#include "apps/plan/svg.hpp"

namespace matrixfsdp::apps {
namespace {

CollectiveProfile read_profile(const PlanCommand& command, const Topology& topology) {
  CollectiveProfile profile = io::read_collective_profile(command.collective_profile);
  try {
    require_links(profile, topology);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--collective-profile '{}': {}", command.collective_profile, error.what()));
  }
  return profile;
}

/// Figures of another job are a forecast: they are used, and that is said.
void tell_difference(const PlanCommand& command, const PlanOutput& output) {
  const int nodes = output.topology.node.back() + 1;
  const CollectiveProfile& profile = *output.profile;
  if (profile.world_size == command.ranks && profile.nodes == nodes) return;
  log_line(
      fmt::format("--collective-profile '{}': measured with {} ranks on {} nodes, not {} on {}: times are those of "
                  "links that behave the same there",
                  command.collective_profile, profile.world_size, profile.nodes, command.ranks, nodes));
}

OptimizerProfile read_planner_profile(const PlanCommand& command) {
  OptimizerProfile profile = io::read_optimizer_profile(command.planner_profile);
  if (profile.world_size != command.ranks) {
    log_line(
        fmt::format("--profile '{}': measured on {} ranks, not {}: only the times of matrices are used, as if all "
                    "ranks were equally fast",
                    command.planner_profile, profile.world_size, command.ranks));
  }
  return profile;
}

TransformerShape shape_of(const PlanCommand& command) {
  TransformerShape shape = transformer_from_name(command.model);
  if (command.sequence_length > 0) shape.sequence_length = command.sequence_length;
  return shape;
}

MemoryOptions memory_options(const PlanCommand& command) {
  MemoryOptions memory;
  memory.passes = command.passes;
  memory.step_in_backward = command.step_in_backward;
  memory.policies.all = {command.param_dtype, command.reduce_dtype, 0};
  memory.optimizer = command.planner.optimizer;
  return memory;
}

/// What peers would send is counted rank by rank and matrix by matrix.
constexpr int most_ranks_of_peers = 4096;

void predict(const PlanCommand& command, PlanOutput& output) {
  StepOptions options;
  options.pass = transformer_pass(shape_of(command), command.micro_batch, command.recompute);
  options.recompute = command.recompute;
  options.cost.memory = memory_options(command);
  options.master_weights = command.master_weights;
  if (command.ranks > most_ranks_of_peers)
    log_line(
        fmt::format("--ranks {}: beyond {} ranks matrix-fsdp alone is predicted", command.ranks, most_ranks_of_peers));
  for (const StrategyKind kind : strategy_kinds()) {
    if (kind != StrategyKind::matrix_fsdp && command.ranks > most_ranks_of_peers) continue;
    if (!supports(kind, command.planner.optimizer.matrices)) continue;
    const Plan plan = kind == StrategyKind::matrix_fsdp
                          ? output.plan
                          : make_strategy_plan(kind, output.model, command.ranks, command.planner);
    output.predictions.push_back(predict_step(kind, output.model, plan, *output.machine, options));
  }
}

PlanOutput plan(PlanCommand& command) {
  PlanOutput output;
  output.name = command.model;
  output.model = transformer_model(shape_of(command));
  if (!command.machine.empty()) output.machine = machine_of(command);
  const int nodes = output.machine ? output.machine->nodes : std::max(1, command.nodes);
  output.topology = make_topology(command.ranks, command.ranks / nodes);
  if (command.planner.policy == Policy::profile) command.planner.profile = read_planner_profile(command);
  if (!command.collective_profile.empty()) {
    output.profile = read_profile(command, output.topology);
    tell_difference(command, output);
  } else if (output.machine) {
    output.profile = collective_profile(*output.machine);
  }
  output.plan = make_plan(output.model, command.ranks, command.planner);
  MemoryOptions memory = memory_options(command);
  memory.topology = output.topology;
  if (output.profile) {
    output.collectives = choose_collectives(output.plan, output.topology, *output.profile, {command.passes});
    for (const UnitCollectives& unit : output.collectives)
      memory.collectives.push_back({unit.unshard.algorithm, unit.reduce.algorithm});
  }
  output.report = report(output.model, output.plan, memory);
  if (command.planner.profile) {
    output.measured_seconds =
        measured_rank_seconds(output.model, output.plan, measured_costs(*command.planner.profile));
  }
  if (output.machine) predict(command, output);
  return output;
}

int run(PlanCommand command) {
  if (!command.text_and_exit.empty()) {
    fmt::print("{}", command.text_and_exit);
    return 0;
  }
  const PlanOutput output = plan(command);
  if (!command.write_machine.empty()) io::write_machine(command.write_machine, *output.machine);
  if (!command.svg.empty()) io::write_text_durably(command.svg, to_svg(output));
  fmt::print("{}", command.json ? to_json(output).dump(2) + "\n" : to_text(output));
  return 0;
}

}  // namespace
}  // namespace matrixfsdp::apps

int main(int argc, char** argv) {
  try {
    return matrixfsdp::apps::run(matrixfsdp::apps::parse_plan_command(argc, argv));
  } catch (const std::exception& error) {
    matrixfsdp::log_line(error.what());
    return 2;
  }
}
