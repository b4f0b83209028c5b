#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/planner.hpp>

namespace matrixfsdp::apps {

struct PlanCommand {
  std::string model;
  std::int64_t sequence_length = 0;  ///< 0: the model's
  int ranks = 1;
  int nodes = 0;  ///< 0: as the machine says, else 1
  PlannerOptions planner;
  std::string planner_profile;     ///< metrics file of a run; empty: none
  std::string collective_profile;  ///< file of a calibration; empty: none
  std::string machine;             ///< name or file; empty: none
  std::string write_machine;       ///< file; empty: none
  std::string svg;                 ///< file; empty: none
  std::int64_t micro_batch = 1;    ///< sequences
  std::int64_t passes = 1;
  DType param_dtype = DType::float32;
  DType reduce_dtype = DType::float32;
  bool recompute = false;
  bool step_in_backward = false;
  bool master_weights = true;
  bool json = false;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
};

/// Throws InputError with one line for anything wrong.
PlanCommand parse_plan_command(int argc, char** argv);

}  // namespace matrixfsdp::apps
