#pragma once

#include <vector>

#include <matrixfsdp/plan/time_model.hpp>

#include "plan/time/transfers.hpp"

namespace matrixfsdp::detail {

/// Seconds of the optimizer phase: see predict_step. `loads`: of each rank, in float32; an element that is sent has
/// `element_bytes`.
double optimizer_seconds(StrategyKind kind, const ModelSpec& model, const Plan& plan, const Machine& machine,
                         const StepOptions& options, const std::vector<StrategyLoad>& loads, double element_bytes,
                         Transfers& transfers);

}  // namespace matrixfsdp::detail
