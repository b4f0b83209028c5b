#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

// --health-every, and what is said of a step that fails.
namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::joined;
using testing::read_json_lines;
using testing::run_train;
using testing::text_folder;

using Lines = std::vector<nlohmann::json>;

Arguments watched_run(const std::string& folder, const Arguments& more) {
  return testing::small_run(folder, joined({"--seq-len", "16", "--steps", "5"}, more));
}

Lines lines_of_run(const std::string& folder, int ranks, const Arguments& more) {
  const std::string metrics = folder + "/metrics.jsonl";
  const auto result = run_train(ranks, joined(watched_run(folder, more), {"--metrics", metrics}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_json_lines(metrics);
}

/// Lines that have `key`.
Lines with(const Lines& lines, const std::string& key) {
  Lines found;
  for (const auto& line : lines) {
    if (line.contains(key)) found.push_back(line);
  }
  return found;
}

/// But for the owners.
nlohmann::json figures(const Lines& lines) {
  nlohmann::json all = nlohmann::json::array();
  for (nlohmann::json line : with(lines, "health")) {
    for (auto& one : line["health"])
      one.erase("rank");
    all.push_back(line);
  }
  return all;
}

TEST(TrainHealth, every_matrix_is_measured_alike_wherever_it_lives) {
  const std::string folder = text_folder("health", 20000);
  const Lines plain = lines_of_run(folder, 3, {"--grad-clip", "0"});
  EXPECT_TRUE(with(plain, "health").empty());
  const Lines one = lines_of_run(folder, 1, {"--health-every", "2", "--grad-clip", "0"});
  const nlohmann::json expected = figures(one);
  ASSERT_EQ(expected.size(), 2U) << "steps 2 and 4";
  EXPECT_EQ(expected[0]["step"], 2);
  ASSERT_EQ(expected[0]["health"].size(), 2U * 6) << "query, key, value of a fused one, and three more";
  for (const auto& matrix : expected[1]["health"]) {
    EXPECT_FALSE(matrix["matrix"].get<std::string>().empty());
    for (const char* of : {"gradient", "weight", "update"}) {
      EXPECT_GT(matrix[of]["smallest"].get<double>(), 0) << matrix;
      EXPECT_GE(matrix[of]["largest"].get<double>(), matrix[of]["smallest"].get<double>()) << matrix;
      EXPECT_GE(matrix[of]["norm"].get<double>(), matrix[of]["largest"].get<double>()) << matrix;
      EXPECT_EQ(matrix[of]["non_finite"], 0) << matrix;
    }
    EXPECT_LT(matrix["update"]["largest"].get<double>(), 1.2) << matrix;
    EXPECT_GT(matrix["update"]["residual"].get<double>(), 0) << matrix;
    EXPECT_LT(matrix["update"]["residual"].get<double>(), 0.7) << matrix;
  }
  for (const Arguments& more : {Arguments{},
                                {"--strategy", "ddp"},
                                {"--strategy", "zero1-owner"},
                                {"--step-in-backward"},
                                {"--step-in-backward", "--micro-batch", "4"},
                                {"--shard-size", "1"}}) {
    const Lines lines = lines_of_run(folder, 3, joined({"--health-every", "2", "--grad-clip", "0"}, more));
    if (std::find(more.begin(), more.end(), "--micro-batch") == more.end()) {
      EXPECT_EQ(figures(lines), expected) << (more.empty() ? "" : more.front());
    }
  }
  // It changes no bit, sends nothing where it is off, and its bytes are its own where it is on.
  const Lines watched = with(lines_of_run(folder, 3, {"--health-every", "2", "--grad-clip", "0"}), "loss_bits");
  const Lines before = with(plain, "loss_bits");
  ASSERT_EQ(watched.size(), before.size());
  for (std::size_t i = 0; i < watched.size(); ++i) {
    EXPECT_EQ(watched[i]["loss_bits"], before[i]["loss_bits"]);
    EXPECT_EQ(before[i]["bytes"]["health"], 0);
    EXPECT_EQ(watched[i]["bytes"]["health"].get<std::int64_t>() > 0, watched[i]["step"].get<int>() % 2 == 0);
    for (const char* purpose : {"unshard", "reduce", "clip", "optimizer", "other"})
      EXPECT_EQ(watched[i]["bytes"][purpose], before[i]["bytes"][purpose]) << purpose;
    EXPECT_EQ(watched[i]["bytes"]["optimizer"], 0);
  }
}

// CASES 30: weights that grow without bound. Steps that are skipped, or leave a parameter, name what made them so.
TEST(TrainHealth, a_step_that_fails_names_parameter_rank_and_quantity) {
  const std::string folder = text_folder("health-failure", 20000);
  const Arguments diverge{"--lr",    "1000", "--adamw-lr",  "1000", "--weight-decay", "1000",
                          "--steps", "12",   "--grad-clip", "0",    "--warmup-steps", "0"};
  const Lines lines = lines_of_run(folder, 3, diverge);
  bool skipped = false;
  for (const auto& line : with(lines, "loss_bits"))
    skipped = skipped || line["skipped"].get<bool>();
  EXPECT_TRUE(skipped);
  const Lines failed = with(lines, "failed");
  ASSERT_FALSE(failed.empty());
  ASSERT_FALSE(failed.back()["failed"].empty());
  for (const auto& one : failed.back()["failed"]) {
    EXPECT_FALSE(one["parameter"].get<std::string>().empty());
    EXPECT_LT(one["rank"].get<int>(), 3);
    EXPECT_EQ(one["quantity"].get<std::string>(), "gradient");
    EXPECT_GT(one["count"].get<int>(), 0);
  }
  // In backward there is no way back: the run ends, with one line that says what and where.
  const auto ended = run_train(3, watched_run(folder, joined(diverge, {"--step-in-backward"})));
  EXPECT_EQ(ended.exit_code, 2);
  const std::vector<std::string> said = testing::lines_of(ended.err);
  for (const char* part : {"--step-in-backward", "gradient of ", "on rank ", "not finite"})
    EXPECT_NE(said.back().find(part), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace matrixfsdp
