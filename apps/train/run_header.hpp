#pragma once

#include <nlohmann/json.hpp>

#include <matrixfsdp/plan/report.hpp>

#include "apps/train/trainer.hpp"

namespace matrixfsdp::train {

/// The line with which a run, and each part of a resumed one, begins its metrics: {"step", "run"}. "run" has version,
/// world_size, shard_size, backend, parameters, configuration, planner, units, owners (of each matrix: its name, unit,
/// rank and elements; none where the plan has no owners) and ranks (what the plan says that each one of a shard group
/// holds, in bytes).
nlohmann::json run_header(const Trainer& trainer, const PlanReport& report);

}  // namespace matrixfsdp::train
