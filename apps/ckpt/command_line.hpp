#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/plan/planner.hpp>

namespace matrixfsdp::ckpt {

/// Exit codes of all programs that compare or judge.
inline constexpr int exit_ok = 0;
inline constexpr int exit_different = 1;  ///< two checkpoints differ, or one is not valid
inline constexpr int exit_error = 2;

enum class Action { none, list, show, verify, diff, reshard, export_tensors, import_tensors };
enum class Names { matrixfsdp, hugging_face };
enum class StateOptimizer { muon, adamw, none };

/// What the program was told. Which fields count depends on the action.
struct Command {
  Action action = Action::none;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
  bool json = false;
  std::string source;                               ///< a checkpoint, or (list) a folder of them
  std::string target;                               ///< diff: the other one; reshard, import: the folder to make
  std::vector<std::string> tensors;                 ///< show: patterns of parameter names; empty: all
  bool quick = false;                               ///< list: believe files of the right size
  bool statistics = false;                          ///< show
  bool histogram = false;                           ///< show
  bool all = false;                                 ///< diff: optimizer and training state too
  double relative_tolerance = 0;                    ///< diff
  double absolute_tolerance = 0;                    ///< diff
  std::int64_t ranks = 1;                           ///< reshard, import
  PlannerOptions planner;                           ///< reshard, import
  std::vector<std::string> files;                   ///< export, import: safetensors
  Names names = Names::matrixfsdp;                  ///< export, import
  bool names_given = false;                         ///< import: else the file decides
  std::string dtype;                                ///< export: "", "float32" or "bfloat16"; empty: as stored
  StateOptimizer optimizer = StateOptimizer::muon;  ///< import
  std::int64_t seed = 1;                            ///< import
};

/// Reads the command line. Throws InputError with one line for anything wrong.
Command parse_command(int argc, char** argv);

}  // namespace matrixfsdp::ckpt
