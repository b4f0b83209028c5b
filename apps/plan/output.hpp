#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/plan/collective_model.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/time_model.hpp>

namespace matrixfsdp::apps {

/// What mfsdp-plan found.
struct PlanOutput {
  std::string name;  ///< of the model
  ModelSpec model;
  Plan plan;
  PlanReport report;
  Topology topology;
  std::optional<CollectiveProfile> profile;  ///< of a calibration, or of the machine's links
  std::vector<UnitCollectives> collectives;  ///< per unit; empty without a profile
  std::vector<double> measured_seconds;      ///< of each rank's matrices, by the planner's profile; empty without one
  std::optional<Machine> machine;
  std::vector<StrategyPrediction> predictions;  ///< of strategies; empty without a machine
};

/// {"planner","world_size","nodes","imbalance","lower_bound","spare_ranks","ranks","units","profile","machine",
/// "predictions"}. "bytes" of a rank are those of its weights, gradients and optimizer state; "unshard" and "reduce" of
/// a unit, and "profile", are null without one; "seconds" of a rank are there with --planner profile; "machine" is null
/// and "predictions" are empty without --machine.
nlohmann::ordered_json to_json(const PlanOutput& output);

/// Tables for people.
std::string to_text(const PlanOutput& output);

}  // namespace matrixfsdp::apps
