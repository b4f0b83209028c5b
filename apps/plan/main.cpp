#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/plan/transformer.hpp>
#include <matrixfsdp/schema/collective_profile.hpp>

#include "apps/plan/command_line.hpp"
#include "apps/plan/output.hpp"

namespace matrixfsdp::apps {
namespace {

CollectiveProfile read_profile(const PlanCommand& command, const Topology& topology) {
  CollectiveProfile profile = io::read_collective_profile(command.profile);
  try {
    require_links(profile, topology);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--collective-profile '{}': {}", command.profile, error.what()));
  }
  return profile;
}

/// Figures of another job are a forecast: they are used, and that is said.
void tell_difference(const PlanCommand& command, const CollectiveProfile& profile) {
  if (profile.world_size == command.ranks && profile.nodes == command.nodes) return;
  log_line(
      fmt::format("--collective-profile '{}': measured with {} ranks on {} nodes, not {} on {}: times are those of "
                  "links that behave the same there",
                  command.profile, profile.world_size, profile.nodes, command.ranks, command.nodes));
}

int run(const PlanCommand& command) {
  if (!command.text_and_exit.empty()) {
    fmt::print("{}", command.text_and_exit);
    return 0;
  }
  PlanOutput output;
  output.model = transformer_model(transformer_from_name(command.model));
  output.topology = make_topology(command.ranks, command.ranks / command.nodes);
  if (!command.profile.empty()) {
    output.profile = read_profile(command, output.topology);
    tell_difference(command, *output.profile);
  }
  output.plan = make_plan(output.model, command.ranks, command.planner);
  MemoryOptions memory;
  memory.topology = output.topology;
  if (output.profile) {
    output.collectives = choose_collectives(output.plan, output.topology, *output.profile);
    for (const UnitCollectives& unit : output.collectives)
      memory.collectives.push_back({unit.unshard.algorithm, unit.reduce.algorithm});
  }
  output.report = report(output.model, output.plan, memory);
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
