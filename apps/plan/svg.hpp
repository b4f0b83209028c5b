#pragma once

#include <string>

#include "apps/plan/output.hpp"

namespace matrixfsdp::apps {

/// A picture of the plan as SVG: which ranks own how much of which units' matrices, and, where times are predicted, a
/// bar of phases for each strategy. Ranks and units beyond what fits are drawn together, as evenly as can be.
std::string to_svg(const PlanOutput& output);

}  // namespace matrixfsdp::apps
