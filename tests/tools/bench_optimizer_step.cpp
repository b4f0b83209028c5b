#include <string>

#include <gtest/gtest.h>

#include "support/known_links.hpp"

namespace matrixfsdp {
namespace {

using testing::run_program;

// What is counted is what the formulas say, for every strategy; only the peers send anything.
TEST(BenchOptimizerStep, bytes_are_those_of_the_formulas) {
  for (const char* optimizer : {"muon", "adamw"}) {
    const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "3", MATRIXFSDP_BENCH, "optimizer-step", "--hidden",
                                     "20", "--blocks", "2", "--rounds", "2", "--optimizer", optimizer,
                                     "--collective-profile", testing::known_links(3), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto report = nlohmann::json::parse(result.out);
    EXPECT_EQ(report["benchmark"], "optimizer-step");
    ASSERT_EQ(report["rows"].size(), 6U);
    const std::int64_t matrices = std::string(optimizer) == "muon" ? 13 : 0;
    for (const auto& row : report["rows"]) {
      const std::string strategy = row["strategy"];
      EXPECT_EQ(row["optimizer_bytes"], row["predicted_bytes"]) << row;
      const bool silent =
          strategy == "matrix-fsdp" || strategy == "ddp" || (matrices == 0 && strategy != "zero1-owner");
      EXPECT_EQ(row["optimizer_bytes"] == 0, silent) << row;
      const bool alike = strategy == "fsdp2-gather" || strategy == "ddp";  // every rank does all of it
      EXPECT_EQ(row["matrices"], alike ? 3 * matrices : matrices) << row;
      EXPECT_GT(row["optimizer_ms"]["minimum"].get<double>(), 0);
      EXPECT_GT(row["predicted_ms"].get<double>(), 0);
      EXPECT_GT(row["peak_bytes"].get<std::int64_t>(), 0);
    }
    EXPECT_EQ(report["rows"][0]["ratio"]["median"], 1.0);
  }
}

// Fewer matrices than ranks: the others own none, and the step is as long as the one matrix that is left.
TEST(BenchOptimizerStep, strong_scaling_until_ranks_own_nothing) {
  const auto result =
      run_program({MATRIXFSDP_MPIEXEC, "-n", "4", MATRIXFSDP_BENCH, "optimizer-step", "--hidden", "16", "--blocks", "1",
                   "--rounds", "1", "--strategy", "matrix-fsdp", "--ranks", "1", "2", "4", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  ASSERT_EQ(report["rows"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(report["rows"][i]["world_size"], 1 << i);
    EXPECT_EQ(report["rows"][i]["ranks_with_matrices"], 1 << i);
    EXPECT_EQ(report["rows"][i]["matrices"], 7);
  }
}

TEST(BenchOptimizerStep, bad_input_is_named) {
  const auto strategy =
      run_program({MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "optimizer-step", "--strategy", "zero9"});
  EXPECT_EQ(strategy.exit_code, 2);
  EXPECT_NE(strategy.err.find("zero9"), std::string::npos) << strategy.err;
  const auto ranks = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "optimizer-step", "--ranks", "3"});
  EXPECT_EQ(ranks.exit_code, 2);
  EXPECT_NE(ranks.err.find("--ranks 3: expected 1 to 2"), std::string::npos) << ranks.err;
}

}  // namespace
}  // namespace matrixfsdp
