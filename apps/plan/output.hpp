#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/plan/collective_model.hpp>
#include <matrixfsdp/plan/report.hpp>

namespace matrixfsdp::apps {

/// What mfsdp-plan found.
struct PlanOutput {
  ModelSpec model;
  Plan plan;
  PlanReport report;
  Topology topology;
  std::optional<CollectiveProfile> profile;
  std::vector<UnitCollectives> collectives;  ///< per unit; empty without a profile
};

/// {"planner","world_size","nodes","imbalance","lower_bound","ranks","units","profile"}. "bytes" of a rank are those of
/// its weights, gradients and optimizer state; "unshard" and "reduce" of a unit, and "profile", are null without one.
nlohmann::ordered_json to_json(const PlanOutput& output);

/// Tables for people.
std::string to_text(const PlanOutput& output);

}  // namespace matrixfsdp::apps
