#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/plan/cost.hpp>

#include "support/program.hpp"

namespace matrixfsdp {
namespace {

using testing::run_program;

TEST(TrainBench, train_step_reports_rates_of_the_same_run) {
  const auto result =
      run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "train-step", "--model", "gpt2:d2", "--seq-len",
                   "32", "--micro-batch", "1", "--rounds", "2", "--strategy", "matrix-fsdp", "ddp", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["benchmark"], "train-step");
  ASSERT_EQ(report["rows"].size(), 2U);
  for (const auto& row : report["rows"]) {
    EXPECT_EQ(row["optimizer_bytes"], 0);
    EXPECT_GE(row["hidden_share"]["minimum"].get<double>(), 0);
    EXPECT_LE(row["hidden_share"]["maximum"].get<double>(), 1);
    EXPECT_GT(row["sgemm_gflops"]["median"].get<double>(), 0);
    EXPECT_GT(row["forward_backward_fraction"]["median"].get<double>(), row["step_fraction"]["median"].get<double>());
  }
}

// Every algorithm brings every element, and moves what its formula says. 30001 elements: no multiple of 3 ranks.
TEST(TrainBench, collectives_arrive_and_count) {
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "3", MATRIXFSDP_BENCH, "collectives", "--bytes", "120004",
                                   "--block", "4096", "--rounds", "1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["benchmark"], "collectives");
  ASSERT_EQ(report["rows"].size(), (1U + 3 * 8) + (1U + 3 * 6));
  for (const auto& row : report["rows"]) {
    const bool library = row["algorithm"] == "allgatherv" || row["algorithm"].get<std::string>().rfind("MPI_", 0) == 0;
    EXPECT_EQ(row["predicted_seconds"].is_null(), library) << row;
    EXPECT_GE(row["over_best"].get<double>(), 1) << row;
    EXPECT_EQ(row["choice"].is_null(), row["algorithm"] != "auto") << row;
    EXPECT_EQ(row["wrong"], 0) << row;
    EXPECT_GT(row["seconds"]["median"].get<double>(), 0);
    const std::string algorithm = row["algorithm"];
    const auto most = row["max_rank_bytes"].get<std::int64_t>();
    if (algorithm == "chain" && row["operation"] == "reduce") {
      EXPECT_LE(most, 2 * 120004) << row << ": the unit, and what the rank owns";
    } else if (algorithm == "chain") {
      EXPECT_LE(most, 120004 + 4096) << row;
    } else if (algorithm == "scatter") {
      EXPECT_LE(most, 120004 + 120004 / 3) << row;
    } else if (algorithm == "direct" && row["table"] == "one") {
      EXPECT_EQ(most, 2 * 120004) << row;
    }
  }
}

TEST(TrainBench, newton_schulz_counts_and_stays_close_to_double) {
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "newton-schulz", "--shape", "96",
                                   "200", "--shape", "130", "70", "--rounds", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  ASSERT_EQ(report["rows"].size(), 2U * (1 + 4));
  for (const auto& row : report["rows"]) {
    EXPECT_GT(row["seconds"]["minimum"].get<double>(), 0);
    if (row["algorithm"] == "three gemms") continue;
    EXPECT_GT(row["ratio"]["minimum"].get<double>(), 0);
    EXPECT_LT(row["error"].get<double>(), 5e-5) << row;
    EXPECT_EQ(row["flops"], newton_schulz_flops(row["m"], row["n"], row["steps"],
                                                parse_newton_schulz_algorithm(row["algorithm"].get<std::string>())));
  }
  const auto two = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "newton-schulz", "--rounds", "1"});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_NE(two.err.find("newton-schulz: 2 ranks, expected one"), std::string::npos) << two.err;
  const auto odd =
      run_program({MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "newton-schulz", "--shape", "96", "200", "130"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_NE(odd.err.find("--shape: 3 numbers: expected pairs"), std::string::npos) << odd.err;
}

TEST(TrainBench, many_matrices_are_all_done_by_every_choice) {
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "1", MATRIXFSDP_BENCH, "many-matrices", "--model",
                                   "gpt2:d2", "--rounds", "2", "--threads", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["benchmark"], "many-matrices");
  std::vector<std::string> choices;
  std::int64_t flops = 0;  // of two blocks: query, key, value, output; up; down
  for (const auto& [rows, cols, count] :
       {std::array<std::int64_t, 3>{128, 128, 8}, std::array<std::int64_t, 3>{512, 128, 2},
        std::array<std::int64_t, 3>{128, 512, 2}})
    flops += count * newton_schulz_flops(rows, cols, 5, NewtonSchulzAlgorithm::automatic);
  double least = 1e9;
  for (const auto& row : report["rows"]) {
    choices.push_back(row["choice"]);
    EXPECT_EQ(row["matrices"], 8) << row;
    EXPECT_EQ(row["parts"], 12) << row;
    EXPECT_EQ(row["flops"], flops) << row;
    EXPECT_GT(row["seconds"]["minimum"].get<double>(), 0);
    if (!row["threads_per_matrix"].is_null()) least = std::min(least, row["ratio"]["median"].get<double>());
  }
  EXPECT_EQ(choices,
            (std::vector<std::string>{"1 x 1", "2 x 1", "1 x 2", "orthogonalize_many, 1", "orthogonalize_many, 2"}));
  EXPECT_LE(least, 1) << "one fixed choice is the one that all are compared with";
  const auto two = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "many-matrices", "--rounds", "1"});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_NE(two.err.find("many-matrices: 2 ranks, expected one"), std::string::npos) << two.err;
}

TEST(TrainBench, checkpoint_compares_saves_with_disk_and_memory) {
  const std::string folder = testing::fresh_folder("bench-checkpoint");
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "checkpoint", "--bytes", "1000000",
                                   "--compute-ms", "20", "--rounds", "2", "--folder", folder, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report["benchmark"], "checkpoint");
  ASSERT_EQ(report["rows"].size(), 6U);
  for (const auto& row : report["rows"]) {
    EXPECT_GT(row["seconds"]["minimum"].get<double>(), 0) << row;
    EXPECT_NEAR(row["bytes"].get<double>(), 1000000, 50000) << row;
    const std::string operation = row["operation"];
    EXPECT_EQ(row["ratio"].is_null(), operation == "memcpy" || operation == "plain write + fsync") << row;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(TrainBench, overlap_prints_what_the_step_is_made_of) {
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "overlap", "--units", "3",
                                   "--bytes", "48000", "--compute-ms", "2", "--rounds", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  ASSERT_EQ(report["rows"].size(), 3U);
  for (const auto& row : report["rows"]) {
    EXPECT_EQ(row["compute_ms"], 3 * 3 * 2);
    EXPECT_GE(row["step_ms"]["minimum"].get<double>(), 18) << "a step computes";
    EXPECT_GT(row["communication_ms"]["minimum"].get<double>(), 0);
    EXPECT_GE(row["bound_ms"]["minimum"].get<double>(), 18);
  }
}

TEST(TrainBench, overlap_of_units_with_few_matrices) {
  const auto result =
      run_program({MATRIXFSDP_MPIEXEC, "-n", "3", MATRIXFSDP_BENCH, "overlap", "--units", "2", "--bytes", "48000",
                   "--compute-ms", "1", "--rounds", "1", "--matrices", "3", "1", "--progress", "poll", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  ASSERT_EQ(report["rows"].size(), 2U);
  EXPECT_EQ(report["rows"][0]["over_first"]["median"], 1.0);
  for (const auto& row : report["rows"])
    EXPECT_DOUBLE_EQ(row["gamma"].get<double>(), 3.0 / row["matrices"].get<double>()) << row;
}

// auto's row is the row of what it chose, in the same rounds; the calibration is kept, and used again.
TEST(TrainBench, auto_is_one_of_the_algorithms) {
  const std::string profile = testing::fresh_folder("bench-profile") + "/profile.json";
  std::string kept;
  for (int run = 0; run < 2; ++run) {
    const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "collectives", "--bytes", "4096",
                                     "80000", "--rounds", "1", "--collective-profile", profile, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    if (run > 0) {
      EXPECT_EQ(testing::read_file(profile), kept);
    }
    kept = testing::read_file(profile);
    const auto rows = nlohmann::json::parse(result.out)["rows"];
    int automatic = 0;
    for (const auto& row : rows) {
      if (row["algorithm"] != "auto") continue;
      ++automatic;
      int same = 0;
      for (const auto& other : rows) {
        const bool chosen = other["algorithm"] == row["choice"] && other["operation"] == row["operation"] &&
                            other["table"] == row["table"] && other["bytes"] == row["bytes"];
        if (!chosen) continue;
        ++same;
        EXPECT_EQ(other["seconds"], row["seconds"]);
        EXPECT_EQ(other["predicted_seconds"], row["predicted_seconds"]);
      }
      EXPECT_EQ(same, 1) << row;
    }
    EXPECT_EQ(automatic, 2 * (3 + 3));
  }
}

TEST(TrainBench, an_unknown_table_is_one_clear_line) {
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "collectives", "--table", "odd"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("odd"), std::string::npos) << result.err;
}

TEST(TrainBench, a_longer_message_than_unshard_sends_is_refused) {
  const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "collectives", "--block", "128kb"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("--block"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("65536"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace matrixfsdp
