#include "apps/plan/machine.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/machine_description.hpp>

#include "apps/plan/here.hpp"

namespace matrixfsdp::apps {
namespace {

Machine named(const std::string& name) {
  const std::vector<std::string> presets = machine_preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) return machine_preset(name);
  try {
    return io::read_machine(name);
  } catch (const IoError& error) {
    throw InputError(
        fmt::format("--machine {}; expected {}, here, or a machine's file", error.what(), fmt::join(presets, ", ")));
  }
}

}  // namespace

Machine machine_of(const PlanCommand& command) {
  if (command.machine == "here") {
    if (command.nodes > 1) throw InputError(fmt::format("--nodes {}: expected 1 with --machine here", command.nodes));
    return measure_here(command.ranks);
  }
  const Machine machine = named(command.machine);
  if (command.nodes > 0) return resized(machine, command.nodes, command.ranks / command.nodes);
  if (command.ranks > machine.ranks()) {
    throw InputError(
        fmt::format("--ranks {}: expected at most {}, which machine '{}' has; --nodes asks for its links "
                    "with other numbers",
                    command.ranks, machine.ranks(), machine.name));
  }
  if (command.ranks <= machine.ranks_per_node) return resized(machine, 1, command.ranks);
  if (command.ranks % machine.ranks_per_node != 0) {
    throw InputError(
        fmt::format("--ranks {}: expected a multiple of {}, the ranks of a node of machine '{}', or --nodes",
                    command.ranks, machine.ranks_per_node, machine.name));
  }
  return resized(machine, command.ranks / machine.ranks_per_node, machine.ranks_per_node);
}

}  // namespace matrixfsdp::apps
