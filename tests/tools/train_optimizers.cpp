#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/known_links.hpp"
#include "support/small_run.hpp"

// --optimizer shampoo and soap as a user meets them.
namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::lines_of;
using testing::loss_bits_of;
using testing::read_file;
using testing::run_program;
using testing::run_train;
using testing::text_folder;

const std::vector<std::string> optimizers{"shampoo", "soap"};

Arguments arguments_of(const std::string& folder, const std::string& optimizer, const Arguments& more) {
  return testing::small_run(folder, testing::joined({"--precondition-frequency", "2", "--optimizer", optimizer}, more));
}

// The baseline: --strategy ddp is the same run, bit for bit, at every number of ranks; and owners send nothing.
TEST(TrainOptimizers, LossesAreThoseOfDdpOnAnyNumberOfRanks) {
  for (const std::string& optimizer : optimizers) {
    const std::string folder = text_folder("optimizers-bits-" + optimizer);
    std::vector<std::string> expected;
    for (const std::string strategy : {"matrix-fsdp", "ddp", "zero1-owner"}) {
      for (int ranks = 1; ranks <= 4; ++ranks) {
        if (strategy == "zero1-owner" && ranks != 3) continue;
        const std::string metrics = folder + "/" + strategy + std::to_string(ranks);
        const auto result = run_train(
            ranks,
            arguments_of(folder, optimizer, {"--steps", "6", "--strategy", strategy, "--metrics", metrics, "--json"}));
        ASSERT_EQ(result.exit_code, 0) << strategy << ": " << result.err;
        const auto bits = loss_bits_of(metrics);
        EXPECT_EQ(bits.size(), 6U);
        if (expected.empty()) expected = bits;
        EXPECT_EQ(bits, expected) << optimizer << ", " << strategy << " on " << ranks;
        const auto summary = nlohmann::json::parse(result.out);
        if (strategy != "zero1-owner") {
          EXPECT_EQ(summary["bytes"]["optimizer"], 0);
        }
        EXPECT_EQ(summary["owned_bytes"], summary["predicted_owned_bytes"]) << optimizer << ", " << strategy;
        EXPECT_EQ(summary["matrices_orthogonalized"], (strategy == "ddp" ? ranks : 1) * 2 * 6);
      }
    }
  }
}

// CASES 50: stopped and resumed on other ranks, the losses and the whole checkpoint are those of one run.
TEST(TrainOptimizers, ResumedRunsAreOneRun) {
  for (const std::string& optimizer : optimizers) {
    const std::string folder = text_folder("optimizers-resume-" + optimizer);
    const auto train = [&](int ranks, const std::string& steps, const std::string& name, const std::string& metrics) {
      const auto result = run_train(
          ranks, arguments_of(folder, optimizer,
                              {"--steps", steps, "--lr-schedule", "constant", "--resume", "auto", "--checkpoint-dir",
                               folder + "/" + name, "--metrics", folder + "/" + metrics, "--verify"}));
      EXPECT_EQ(result.exit_code, 0) << optimizer << ": " << result.err;
      return loss_bits_of(folder + "/" + metrics);
    };
    std::vector<std::string> parts = train(3, "3", "parts", "first");
    for (const std::string& bits : train(2, "6", "parts", "second"))
      parts.push_back(bits);
    EXPECT_EQ(parts, train(1, "6", "whole", "all"));
    const auto same = run_program({MATRIXFSDP_CKPT, "diff", folder + "/parts", folder + "/whole", "--json"});
    EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
    const auto shown = run_program({MATRIXFSDP_CKPT, "show", folder + "/whole"});
    EXPECT_NE(shown.out.find("left_factor"), std::string::npos) << shown.out;
    EXPECT_NE(shown.out.find("(32, 32)"), std::string::npos) << shown.out;
    const auto moved =
        run_program({MATRIXFSDP_CKPT, "reshard", folder + "/whole", folder + "/moved", "--ranks", "4", "--json"});
    EXPECT_EQ(moved.exit_code, 0) << moved.err;
    const auto all = run_program({MATRIXFSDP_CKPT, "diff", folder + "/moved", folder + "/whole", "--all"});
    EXPECT_EQ(all.exit_code, 0) << all.out << all.err;
    const auto other =
        run_train(2, arguments_of(folder, optimizer == "soap" ? "shampoo" : "soap",
                                  {"--steps", "7", "--resume", "auto", "--checkpoint-dir", folder + "/moved"}));
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_NE(other.err.find("optimizer state of"), std::string::npos) << other.err;
  }
}

// Each with its own line that names the option, the value and what was expected.
TEST(TrainOptimizers, BadOptionsAreNamed) {
  const std::string folder = text_folder("optimizers-bad");
  struct Bad {
    std::vector<std::string> options;
    std::string message;
  };
  const std::vector<Bad> all{
      {{"--optimizer", "sopa"}, "--optimizer 'sopa': expected one of adamw, muon, shampoo, soap"},
      {{"--grafting", "sgd"}, "--grafting 'sgd': expected --optimizer shampoo, no other reads it"},
      {{"--factor-beta", "0.5"}, "--factor-beta '0.5': expected --optimizer soap, no other reads it"},
      {{"--optimizer", "muon", "--beta1", "0.5"}, "--beta1 '0.5': expected --optimizer shampoo or soap"},
      {{"--optimizer", "adamw", "--momentum", "0.5"}, "--momentum '0.5': expected --optimizer muon, no other reads it"},
      {{"--optimizer", "soap", "--ns-steps", "3"}, "--ns-steps '3': expected --optimizer muon, no other reads it"},
      {{"--optimizer", "shampoo", "--no-nesterov"}, "--no-nesterov: expected --optimizer muon, no other reads it"},
      {{"--optimizer", "shampoo", "--grafting", "adamw"}, "grafting 'adamw': expected none, sgd or adam"},
      {{"--optimizer", "soap", "--precondition-frequency", "0"},
       "--precondition-frequency '0': expected an integer of at least 1"},
      {{"--optimizer", "soap", "--max-preconditioner-dimension", "100000"},
       "preconditioner dimension 100000: expected 1 to 32000"},
      {{"--optimizer", "shampoo", "--precondition-frequency", "5", "--start-preconditioning-step", "3"},
       "Shampoo: start step 3, expected -1 or at least the frequency 5"},
      {{"--optimizer", "shampoo", "--beta1", "1"}, "Shampoo: beta1 1, expected 0 <= beta1 < 1"},
      {{"--optimizer", "soap", "--strategy", "fsdp2"},
       "strategy fsdp2 with optimizer soap: its ranks hold rows of matrices, expected one of matrix-fsdp, "
       "zero1-owner, ddp"},
  };
  for (const Bad& bad : all) {
    const auto result = run_train(1, testing::small_run(folder, bad.options));
    EXPECT_EQ(result.exit_code, 2) << bad.message;
    EXPECT_NE(result.err.find(bad.message), std::string::npos) << result.err;
  }
}

TEST(TrainOptimizers, PlanPricesThem) {
  for (const std::string& optimizer : optimizers) {
    const auto result = run_program({MATRIXFSDP_PLAN, "--model", "gpt2:124m", "--ranks", "8", "--machine", "a100-8x8",
                                     "--nodes", "1", "--optimizer", optimizer, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto plan = nlohmann::json::parse(result.out);
    EXPECT_EQ(plan["predictions"].size(), 3U) << "row shards cannot";
    EXPECT_LE(plan["imbalance"]["flops"].get<double>(), 1.1);
  }
  const auto bad = run_program({MATRIXFSDP_PLAN, "--model", "gpt2:124m", "--ranks", "8", "--grafting", "sgd"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("--grafting 'sgd': expected --optimizer shampoo"), std::string::npos) << bad.err;
  const auto steps =
      run_program({MATRIXFSDP_PLAN, "--model", "gpt2:d2", "--ranks", "2", "--optimizer", "soap", "--ns-steps", "3"});
  EXPECT_EQ(steps.exit_code, 2);
  EXPECT_NE(steps.err.find("--ns-steps '3': expected --optimizer muon"), std::string::npos) << steps.err;
}

TEST(TrainOptimizers, BenchmarksRunThem) {
  for (const std::string& optimizer : optimizers) {
    const auto result = run_program({MATRIXFSDP_MPIEXEC, "-n", "3", MATRIXFSDP_BENCH, "optimizer-step", "--hidden",
                                     "20", "--blocks", "2", "--rounds", "2", "--optimizer", optimizer,
                                     "--collective-profile", testing::known_links(3), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto report = nlohmann::json::parse(result.out);
    ASSERT_EQ(report["rows"].size(), 3U);
    for (const auto& row : report["rows"]) {
      EXPECT_EQ(row["optimizer_bytes"], row["predicted_bytes"]) << row;
      EXPECT_EQ(row["matrices"], row["strategy"] == "ddp" ? 39 : 13) << row;
    }
    const Arguments small{"--model", "gpt2:d2", "--hidden", "32", "--heads", "2", "--seq-len", "16", "--rounds", "1"};
    const Arguments told{"--optimizer", optimizer, "--collective-profile", testing::known_links(2), "--json"};
    const auto step = run_program(
        testing::joined({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH, "train-step"}, testing::joined(small, told)));
    ASSERT_EQ(step.exit_code, 0) << step.err;
    EXPECT_EQ(nlohmann::json::parse(step.out)["rows"][0]["optimizer"], optimizer);
  }
}

// The table of apps/bench/optimizers.sh in short: a line for each optimizer and rate, and the best of each.
TEST(TrainOptimizers, TableOfAllOptimizers) {
  const std::string folder = text_folder("optimizers-table");
  const std::vector<std::string> command{"bash",    MATRIXFSDP_OPTIMIZERS,
                                         "--out",   folder + "/out",
                                         "--data",  folder + "/text.txt",
                                         "--steps", "2",
                                         "--lr",    "0.001 0.01",
                                         "--seeds", "1 2",
                                         "--ranks", "2",
                                         "--train", MATRIXFSDP_TRAIN,
                                         "--",      "--hidden",
                                         "32",      "--layers",
                                         "1",       "--seq-len",
                                         "32"};
  const auto result = run_program(command, {}, 300);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = lines_of(read_file(folder + "/out/table.txt"));
  ASSERT_EQ(lines.size(), 1U + 8 + 1 + 4) << result.out;
  const std::vector<std::string> names{"adamw", "muon", "shampoo", "soap"};
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(lines[1 + i].rfind(names[i / 2], 0), 0U) << lines[1 + i];
  EXPECT_EQ(lines[9], "best of each:");
  const auto bad = run_program({"bash", MATRIXFSDP_OPTIMIZERS, "--train", folder + "/none"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("--train"), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace matrixfsdp
