#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

/// Runs programs as a user would, for tests of the command line.
namespace matrixfsdp::testing {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal where one ended it
  std::string out;
  std::string err;
};

/// Runs `command` with `environment` added, killed after `seconds` (then exit_code is 124 or 137).
ProgramResult run_program(const std::vector<std::string>& command,
                          const std::map<std::string, std::string>& environment = {}, int seconds = 120);

/// mfsdp-train with `arguments` on `ranks` ranks.
ProgramResult run_train(int ranks, const std::vector<std::string>& arguments,
                        const std::map<std::string, std::string>& environment = {}, int seconds = 120);

/// An empty folder of this test, removed and made anew by each call.
std::string fresh_folder(const std::string& name);

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);
std::vector<nlohmann::json> read_json_lines(const std::string& path);

/// Lines that are not empty.
std::vector<std::string> lines_of(const std::string& text);

/// The file of a calibration with that many ranks and nodes, on which a hop takes 1 ms and a byte 1 ns.
std::string collective_profile(int ranks, int nodes);

/// English-like text that compresses: sentences of a small vocabulary, the same in every run.
std::string sample_text(std::size_t bytes);

}  // namespace matrixfsdp::testing
