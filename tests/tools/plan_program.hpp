#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.hpp"

/// mfsdp-plan as a user runs it: without mpiexec.
namespace matrixfsdp::testing {

inline ProgramResult run_plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MATRIXFSDP_PLAN);
  return run_program(arguments);
}

inline nlohmann::json plan_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const auto result = run_plan(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

/// Metrics of a run in which rank 1 took twice as long for every matrix of gpt2:d4.
inline std::string measured_run(int ranks) {
  nlohmann::json measured = nlohmann::json::array();
  struct Matrix {
    int rows;
    int cols;
    int parts;
    double seconds;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Matrix& one :
         {Matrix{768, 256, 3, 0.3}, Matrix{256, 256, 1, 0.1}, Matrix{1024, 256, 1, 0.25}, Matrix{256, 1024, 1, 0.25}}) {
      measured.push_back({{"rank", rank},
                          {"rows", one.rows},
                          {"cols", one.cols},
                          {"parts", one.parts},
                          {"steps", 9},
                          {"seconds", one.seconds * (rank == 1 ? 2 : 1)}});
    }
  }
  const nlohmann::json line{{"step", 10}, {"optimizer_profile", {{"world_size", ranks}, {"measured", measured}}}};
  return "{\"step\":1}\n" + line.dump() + "\n";
}

}  // namespace matrixfsdp::testing
