#include "apps/train/run_header.hpp"

#include <matrixfsdp/core/version.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp::train {
namespace {

using nlohmann::json;

json owners_of(const ModelSpec& model, const Plan& plan) {
  json owners = json::array();
  if (plan.replicated || plan.row_shards) return owners;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (kind_of(parameters[p]) != ParameterKind::matrix) continue;
      owners.push_back({{"matrix", parameters[p].name},
                        {"unit", u},
                        {"rank", plan.owner(u, p)},
                        {"elements", element_count(parameters[p].shape)}});
    }
  }
  return owners;
}

}  // namespace

json run_header(const Trainer& trainer, const PlanReport& report) {
  const ShardedModel& model = trainer.replica().model;
  json units = json::array();
  for (const UnitSpec& unit : model.spec().units)
    units.push_back(unit.name);
  json ranks = json::array();
  for (const RankLoad& load : report.ranks)
    ranks.push_back({{"owned_bytes", load.owned_bytes}, {"window_bytes", load.window_bytes}});
  return {{"step", trainer.steps_done()},
          {"run",
           {{"version", version()},
            {"world_size", trainer.communicator().size()},
            {"shard_size", model.plan().world_size},
            {"backend", trainer.backend()},
            {"parameters", element_count(model.spec())},
            {"planner", model.plan().planner},
            {"configuration", to_json(trainer.options())},
            {"units", units},
            {"owners", owners_of(model.spec(), model.plan())},
            {"ranks", ranks}}}};
}

}  // namespace matrixfsdp::train
