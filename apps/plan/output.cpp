#include "apps/plan/output.hpp"

#include <fmt/format.h>

namespace matrixfsdp::apps {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const CollectiveChoice& choice) {
  return {{"collective", name_of(choice.algorithm)}, {"predicted_seconds", choice.seconds}};
}

std::string shown(const CollectiveChoice& choice) {
  return fmt::format("{:>14} {:>12.4g}", name_of(choice.algorithm), 1e3 * choice.seconds);
}

/// What stands behind a unit's name.
std::string columns_of(const PlanOutput& output, std::size_t unit) {
  std::string text = fmt::format("{:>8.2f}", output.report.gamma[unit]);
  if (output.profile) text += shown(output.collectives[unit].unshard) + shown(output.collectives[unit].reduce);
  return text;
}

}  // namespace

Json to_json(const PlanOutput& output) {
  const PlanReport& report = output.report;
  Json ranks = Json::array();
  for (const RankLoad& load : report.ranks) {
    ranks.push_back({{"rank", load.rank},
                     {"bytes", load.owned_bytes},
                     {"window_bytes", load.window_bytes},
                     {"flops", load.flops},
                     {"matrices", load.matrices}});
  }
  Json units = Json::array();
  for (std::size_t u = 0; u < output.model.units.size(); ++u) {
    units.push_back({{"name", output.model.units[u].name},
                     {"gamma", report.gamma[u]},
                     {"unshard", output.profile ? to_json(output.collectives[u].unshard) : Json()},
                     {"reduce", output.profile ? to_json(output.collectives[u].reduce) : Json()}});
  }
  Json profile;
  if (output.profile) profile = {{"world_size", output.profile->world_size}, {"nodes", output.profile->nodes}};
  return {{"planner", output.plan.planner},
          {"world_size", output.plan.world_size},
          {"nodes", output.topology.node.back() + 1},
          {"imbalance", {{"bytes", report.imbalance_bytes}, {"flops", report.imbalance_flops}}},
          {"lower_bound", {{"bytes", report.lower_bound_bytes}, {"flops", report.lower_bound_flops}}},
          {"ranks", ranks},
          {"units", units},
          {"profile", profile}};
}

std::string to_text(const PlanOutput& output) {
  std::string text = to_text(output.model, output.plan, output.report);
  text += fmt::format("\n{:<28}{:>8}", "unit", "gamma");
  text += output.profile
              ? fmt::format("{:>14} {:>12}{:>14} {:>12}\n", "unshard", "predicted ms", "reduce", "predicted ms")
              : "\n";
  // Units that are alike stand in one line.
  const std::vector<UnitSpec>& units = output.model.units;
  for (std::size_t first = 0, next = 0; first < units.size(); first = next) {
    const std::string columns = columns_of(output, first);
    for (next = first + 1; next < units.size() && columns_of(output, next) == columns;)
      ++next;
    const std::string name =
        next - first == 1 ? units[first].name : fmt::format("{} to {}", units[first].name, units[next - 1].name);
    text += fmt::format("{:<28}{}\n", name, columns);
  }
  if (!output.profile) text += "no times are predicted: --collective-profile names the file of a calibration\n";
  return text;
}

}  // namespace matrixfsdp::apps
