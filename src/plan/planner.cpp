#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

#include "plan/layout.hpp"
#include "plan/policies.hpp"
#include "plan/tails.hpp"

namespace matrixfsdp {
namespace {

using detail::Assignment;
using detail::Load;
using detail::UnitAssignment;
using detail::Workload;

/// A finished placement of matrices and tails.
struct Placement {
  std::vector<UnitAssignment> units;
  double worst = 0;  ///< heaviest rank over the lower bound
};

Assignment assign(Policy policy, const Workload& workload, const std::vector<Load>& base) {
  if (policy == Policy::role) return detail::assign_by_role(workload, base);
  if (policy == Policy::scope) return detail::assign_by_scope(workload, base);
  return detail::assign_balanced(workload, base);
}

void append_matrices(const Workload& workload, const Assignment& assignment, std::vector<UnitAssignment>& units) {
  for (std::size_t i = 0; i < workload.matrices.size(); ++i) {
    const detail::Item& matrix = workload.matrices[i];
    units[matrix.unit].matrices.push_back({matrix.parameter, assignment.owners[i]});
  }
}

/// What is placed, at which prices.
struct Job {
  const ModelSpec& model;
  int world_size = 1;
  const PlannerOptions& options;
  std::optional<MeasuredCosts> measured;

  [[nodiscard]] Workload workload(bool packed_tails) const {
    return detail::make_workload(model, world_size, options.optimizer, packed_tails, measured ? &*measured : nullptr);
  }
};

Placement place_spread(const Job& job, Policy policy) {
  const ModelSpec& model = job.model;
  const int world_size = job.world_size;
  const Workload workload = job.workload(false);
  Assignment assignment = assign(policy, workload, std::vector<Load>(static_cast<std::size_t>(world_size)));
  Placement result;
  result.units.resize(model.units.size());
  append_matrices(workload, assignment, result.units);
  detail::spread_tails(workload, assignment.loads, result.units);
  result.worst = assignment.worst(workload);
  return result;
}

Placement place_packed(const Job& job, Policy policy) {
  const Workload workload = job.workload(true);
  std::vector<Load> base(static_cast<std::size_t>(job.world_size));
  detail::PackedTails tails(workload);
  tails.place_large(base);
  Assignment assignment = assign(policy, workload, base);
  tails.place_small(assignment.loads);
  Placement result;
  result.units.resize(job.model.units.size());
  append_matrices(workload, assignment, result.units);
  tails.append_to(result.units);
  // Against the bound of the spread placement, so that the two can be compared.
  result.worst = assignment.worst(job.workload(false));
  return result;
}

/// Nothing that packing could win.
constexpr double as_good_as_even = 1.001;

Placement place(const Job& job, Policy policy) {
  const TailPlacement tails = job.options.tails;
  if (tails == TailPlacement::packed) return place_packed(job, policy);
  Placement spread = place_spread(job, policy);
  if (tails == TailPlacement::spread || spread.worst <= as_good_as_even) return spread;
  Placement packed = place_packed(job, policy);
  return packed.worst < spread.worst ? packed : spread;
}

std::vector<UnitPlan> lay_out(const Job& job, const Placement& placement) {
  std::vector<UnitPlan> units;
  units.reserve(job.model.units.size());
  for (std::size_t u = 0; u < job.model.units.size(); ++u)
    units.push_back(detail::lay_out(job.model.units[u], placement.units[u], job.world_size));
  return units;
}

/// Policy::cost
std::vector<UnitPlan> plan_by_cost(const Job& job) {
  const Placement role = place(job, Policy::role);
  const Placement scope = place(job, Policy::scope);
  std::vector<UnitPlan> by_role = lay_out(job, role);
  if (!(scope.worst < role.worst)) return by_role;
  std::vector<UnitPlan> by_scope = lay_out(job, scope);
  for (std::size_t u = 0; u < by_scope.size(); ++u) {
    if (by_scope[u].gamma > job.options.workspace_cap * by_role[u].gamma) return by_role;
  }
  return by_scope;
}

std::optional<MeasuredCosts> measured(const PlannerOptions& options) {
  if (options.policy != Policy::profile) return std::nullopt;
  if (!options.profile) throw InputError("planner profile: 0 measurements: expected the profile of a run");
  return measured_costs(*options.profile);
}

Plan empty_plan(const ModelSpec& model, int world_size, std::string_view name) {
  if (world_size < 1) throw InputError(fmt::format("plan for {} ranks: expected at least 1", world_size));
  validate(model);
  Plan plan;
  plan.planner = name;
  plan.world_size = world_size;
  return plan;
}

}  // namespace

std::string_view name_of(Policy policy) {
  switch (policy) {
    case Policy::role:
      return "role";
    case Policy::scope:
      return "scope";
    case Policy::cost:
      return "cost";
    case Policy::balanced:
      return "balanced";
    case Policy::profile:
      return "profile";
  }
  throw ContractError(fmt::format("planner {}: expected one of the enumeration's", static_cast<int>(policy)));
}

Policy parse_policy(std::string_view name) {
  for (const Policy policy : {Policy::role, Policy::scope, Policy::cost, Policy::balanced, Policy::profile}) {
    if (name == name_of(policy)) return policy;
  }
  throw InputError(fmt::format("planner '{}': expected role, scope, cost, balanced or profile", name));
}

Plan make_plan(const ModelSpec& model, int world_size, const PlannerOptions& options) {
  Plan plan = empty_plan(model, world_size, name_of(options.policy));
  if (!(options.workspace_cap >= 1.0)) {
    throw InputError(fmt::format("workspace cap {}: expected at least 1", options.workspace_cap));
  }
  const Job job{model, world_size, options, measured(options)};
  plan.units = options.policy == Policy::cost ? plan_by_cost(job) : lay_out(job, place(job, options.policy));
  validate(model, plan);
  return plan;
}

Plan make_replicated_plan(const ModelSpec& model, int world_size) {
  Plan plan = empty_plan(model, world_size, "replicated");
  plan.replicated = true;
  for (const UnitSpec& unit : model.units)
    plan.units.push_back(detail::lay_out_replicated(unit, world_size));
  validate(model, plan);
  return plan;
}

Plan make_row_plan(const ModelSpec& model, int world_size) {
  Plan plan = empty_plan(model, world_size, "rows");
  plan.row_shards = true;
  for (const UnitSpec& unit : model.units)
    plan.units.push_back(detail::lay_out_rows(unit, world_size));
  validate(model, plan);
  return plan;
}

}  // namespace matrixfsdp
