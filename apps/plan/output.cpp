#include "apps/plan/output.hpp"

namespace matrixfsdp::apps {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const CollectiveChoice& choice) {
  return {{"collective", name_of(choice.algorithm)}, {"predicted_seconds", choice.seconds}};
}

Json ranks_of(const PlanOutput& output) {
  Json ranks = Json::array();
  for (const RankLoad& load : output.report.ranks) {
    Json rank{{"rank", load.rank},
              {"bytes", load.owned_bytes},
              {"gradient_bytes", load.gradient_bytes},
              {"window_bytes", load.window_bytes},
              {"flops", load.flops},
              {"matrices", load.matrices}};
    if (!output.measured_seconds.empty())
      rank["seconds"] = output.measured_seconds[static_cast<std::size_t>(load.rank)];
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

Json units_of(const PlanOutput& output) {
  Json units = Json::array();
  for (std::size_t u = 0; u < output.model.units.size(); ++u) {
    units.push_back({{"name", output.model.units[u].name},
                     {"gamma", output.report.gamma[u]},
                     {"unshard", output.profile ? to_json(output.collectives[u].unshard) : Json()},
                     {"reduce", output.profile ? to_json(output.collectives[u].reduce) : Json()}});
  }
  return units;
}

Json to_json(const StrategyPrediction& one) {
  return {{"strategy", name_of(one.strategy)},
          {"forward_ms", 1e3 * one.forward_seconds},
          {"backward_ms", 1e3 * one.backward_seconds},
          {"optimizer_ms", 1e3 * one.optimizer_seconds},
          {"total_ms", 1e3 * one.total_seconds()},
          {"bytes_per_rank", one.bytes_per_rank},
          {"optimizer_bytes_per_rank", one.optimizer_bytes_per_rank},
          {"memory_bytes_per_rank", one.memory_bytes},
          {"fits", one.fits}};
}

Json to_json(const Machine& machine) {
  return {{"name", machine.name},
          {"nodes", machine.nodes},
          {"ranks_per_node", machine.ranks_per_node},
          {"gemm_flops_per_second", machine.gemm_flops_per_second},
          {"orthogonalize_flops_per_second", machine.orthogonalize_flops_per_second},
          {"bytes_per_second",
           {{"inside", machine.inside.bytes_per_second}, {"between", machine.between.bytes_per_second}}},
          {"memory_bytes", machine.memory_bytes},
          {"slow_ranks", machine.slow_ranks.size()}};
}

}  // namespace

Json to_json(const PlanOutput& output) {
  const PlanReport& report = output.report;
  Json profile;
  if (output.profile) profile = {{"world_size", output.profile->world_size}, {"nodes", output.profile->nodes}};
  Json predictions = Json::array();
  for (const StrategyPrediction& one : output.predictions)
    predictions.push_back(to_json(one));
  return {{"planner", output.plan.planner},
          {"world_size", output.plan.world_size},
          {"nodes", output.topology.node.back() + 1},
          {"imbalance", {{"bytes", report.imbalance_bytes}, {"flops", report.imbalance_flops}}},
          {"lower_bound", {{"bytes", report.lower_bound_bytes}, {"flops", report.lower_bound_flops}}},
          {"spare_ranks", report.spare_ranks},
          {"ranks", ranks_of(output)},
          {"units", units_of(output)},
          {"profile", profile},
          {"machine", output.machine ? to_json(*output.machine) : Json()},
          {"predictions", predictions}};
}

}  // namespace matrixfsdp::apps
