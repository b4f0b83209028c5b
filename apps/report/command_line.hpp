#pragma once

#include <string>
#include <vector>

namespace matrixfsdp::report {

struct Command {
  std::vector<std::string> runs;  ///< metrics files
  std::string output;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
};

/// Throws InputError with one line for anything wrong.
Command parse_command(int argc, char** argv);

}  // namespace matrixfsdp::report
