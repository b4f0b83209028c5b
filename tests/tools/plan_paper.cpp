#include <map>
#include <string>

#include <gtest/gtest.h>

#include "support/program.hpp"

/// The model of time and memory beside the published figures.
namespace matrixfsdp {
namespace {

nlohmann::json paper() {
  const auto result = testing::run_program({MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "paper-model", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(PlanPaper, four_rates_of_two_rows_predict_the_other_two_rows) {
  const auto report = paper();
  EXPECT_EQ(report["benchmark"], "paper-model");
  int fitted = 0;
  int predicted = 0;
  for (const auto& row : report["rows"]) {
    if (row["figure"] == "gigabytes") continue;
    EXPECT_EQ(row["fitted"], row["nodes"] == 1 || row["nodes"] == 2) << row;
    ++(row["fitted"] == true ? fitted : predicted);
    EXPECT_NEAR(row["ratio"].get<double>(), 1, row["fitted"] == true ? 0.10 : 0.20) << row;
    EXPECT_EQ(row["met"], true) << row;
  }
  // Two strategies, two figures, two rows, for 2 and for 5 steps.
  EXPECT_EQ(fitted, 16);
  EXPECT_EQ(predicted, 16);
}

}  // namespace
}  // namespace matrixfsdp
