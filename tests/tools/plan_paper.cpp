#include <set>
#include <string>

#include <fmt/format.h>
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

/// "figure model strategy"
std::string name_of(const nlohmann::json& row) {
  return fmt::format("{} {} {}", row["figure"].get<std::string>(), row["model"].get<std::string>(),
                     row["strategy"].get<std::string>());
}

// One figure of sixteen is missed, by 20.6 %: for the same work in each block the published stock takes 40, 48 and 40
// ms a block on 2, 4 and 8 nodes, and a model that is right at 2 and at 8 nodes cannot be right between them.
TEST(PlanPaper, four_rates_of_two_rows_predict_the_other_two_rows) {
  const auto report = paper();
  EXPECT_EQ(report["benchmark"], "paper-model");
  int fitted = 0;
  int predicted = 0;
  for (const auto& row : report["rows"]) {
    if (row["tolerance"] != 0.20) continue;
    EXPECT_EQ(row["fitted"], row["nodes"] == 1 || row["nodes"] == 2) << row;
    ++(row["fitted"] == true ? fitted : predicted);
    const bool missed = name_of(row) == "step_ms 64 blocks fsdp2";
    EXPECT_NEAR(row["ratio"].get<double>(), 1, row["fitted"] == true ? 0.10 : missed ? 0.21 : 0.20) << row;
    EXPECT_EQ(row["met"], !missed) << row;
  }
  // Two strategies, two figures, two rows, for 2 and for 5 steps.
  EXPECT_EQ(fitted, 16);
  EXPECT_EQ(predicted, 16);
}

// What is missed: two small models, which need more than parameters and block inputs explain (a fixed cost of the
// framework, or logits, would do so); 32B gathered, for which the published figure is less than its matrices alone;
// ZeRO-1, whose published figure has whole gradients where ours are at their owners; and stock and MatrixFSDP of the
// 4.3B model, whose shape is not told.
TEST(PlanPaper, memory_is_predicted_where_the_model_says_what_is_kept) {
  const std::set<std::string> missed = {"gb_tables_sharded 1.7B matrix-fsdp", "gb_tables_sharded 4B matrix-fsdp",
                                        "gb_tables_sharded 32B fsdp2-gather", "gb_tables_sharded 4.3B zero1-owner",
                                        "gb_tables_sharded 4.3B matrix-fsdp", "gb_tables_sharded 4.3B fsdp2"};
  int met = 0;
  const auto report = paper();
  for (const auto& row : report["rows"]) {
    EXPECT_GT(row["predicted"].get<double>(), 0) << row;
    if (row["figure"] != "gb_tables_sharded") continue;
    EXPECT_EQ(row["met"], missed.count(name_of(row)) == 0) << row;
    met += row["met"] == true ? 1 : 0;
  }
  EXPECT_EQ(met, 7);
}

}  // namespace
}  // namespace matrixfsdp
