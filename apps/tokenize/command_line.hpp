#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/dataset/token_data.hpp>

namespace matrixfsdp::tokenize {

struct Command {
  std::vector<std::string> files;
  std::string output;
  double validation = 0;  ///< share of the tokens; 0: no second file
  bool ids = false;       ///< files hold token ids as text
  io::TokenFormat format = io::TokenFormat::shard_uint16;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
};

/// Throws InputError with one line for anything wrong.
Command parse_command(int argc, char** argv);

}  // namespace matrixfsdp::tokenize
