#pragma once

#include <string>

#include <matrixfsdp/plan/planner.hpp>

namespace matrixfsdp::apps {

struct PlanCommand {
  std::string model;
  int ranks = 1;
  int nodes = 1;
  PlannerOptions planner;
  std::string profile;  ///< file of a calibration; empty: none
  bool json = false;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
};

/// Throws InputError with one line for anything wrong.
PlanCommand parse_plan_command(int argc, char** argv);

}  // namespace matrixfsdp::apps
