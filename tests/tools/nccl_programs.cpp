#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

/// The programs as a user runs them, with NCCL and CUDA's runtime replaced by the host double.
namespace matrixfsdp {
namespace {

using testing::lines_of;
using testing::ProgramResult;
using testing::run_program;
using testing::text_folder;
using Environment = std::map<std::string, std::string>;

const Environment seeded{{"MATRIXFSDP_NCCL_DOUBLE_SEED", "11"}};
const Environment one_device{{"MATRIXFSDP_NCCL_DOUBLE_SEED", "11"}, {"MATRIXFSDP_NCCL_DOUBLE_ONE_DEVICE", "1"}};

ProgramResult train(const std::string& folder, const Environment& environment, const std::vector<std::string>& more) {
  const testing::Arguments run{"--hidden", "48",      "--heads", "4",           "--batch-size",
                               "8",        "--steps", "5",       "--grad-clip", "0.5"};
  const testing::Arguments command{MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_TRAIN_NCCL_DOUBLE};
  return run_program(testing::joined(command, testing::small_run(folder, testing::joined(run, more))), environment,
                     300);
}

std::string bits_and_bytes(const nlohmann::json& step) {
  return step["loss_bits"].get<std::string>() + " " + step["bytes"].dump();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The same losses to the last bit, and the same bytes (direct is what NCCL's sends are counted as), with more than one
// pass, several reduces and units under way.
TEST(NcclPrograms, a_run_over_nccl_has_the_losses_of_mpi) {
  const std::string folder = text_folder("nccl-losses");
  const std::vector<std::vector<std::string>> variants = {{},
                                                          {"--reduces-in-flight", "2", "--prefetch", "2"},
                                                          {"--progress", "poll", "--strategy", "ddp"},
                                                          {"--param-dtype", "bfloat16", "--reduce-dtype", "bfloat16"},
                                                          {"--reduce-dtype", "bfloat16", "--shard-size", "1"}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::vector<std::vector<std::string>> steps;
    for (const std::string backend : {"mpi", "nccl", "auto"}) {
      const std::string metrics = folder + "/" + std::to_string(i) + backend + ".jsonl";
      std::vector<std::string> more = {"--backend", backend, "--collective", "direct", "--metrics", metrics, "--json"};
      more.insert(more.end(), variants[i].begin(), variants[i].end());
      const ProgramResult result = train(folder, seeded, more);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const std::string said = backend == "mpi" ? "segments stay with MPI: --backend mpi" : "segments by NCCL 2.";
      EXPECT_TRUE(has(result.err, said)) << result.err;
      EXPECT_EQ(nlohmann::json::parse(result.out)["backend"].get<std::string>().rfind(said, 0), 0U) << result.out;
      steps.emplace_back();
      for (const auto& step : testing::steps_of(metrics))
        steps.back().push_back(bits_and_bytes(step));
      ASSERT_EQ(steps.back().size(), 5U);
      EXPECT_EQ(steps.back(), steps.front()) << backend << ", variant " << i;
    }
  }
}

// The replicated copy of --verify stays with MPI: every gradient and weight is compared across the two.
TEST(NcclPrograms, verify_compares_nccl_with_mpi) {
  const ProgramResult result = train(text_folder("nccl-verify"), seeded, {"--backend", "nccl", "--verify"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "every gradient and weight")) << result.out;
}

// CASES 67: auto tells why, and goes on; nccl ends in an orderly way.
TEST(NcclPrograms, where_nccl_cannot_auto_goes_on_and_nccl_ends) {
  const std::string folder = text_folder("nccl-cannot");
  const ProgramResult automatic = train(folder, one_device, {});
  EXPECT_EQ(automatic.exit_code, 0) << automatic.err;
  EXPECT_TRUE(has(automatic.err, "segments stay with MPI: ranks 0 and 1 share device")) << automatic.err;
  const ProgramResult demanded = train(folder, one_device, {"--backend", "nccl"});
  EXPECT_EQ(demanded.exit_code, 2);
  EXPECT_EQ(demanded.out, "");
  const auto lines = lines_of(demanded.err);
  ASSERT_EQ(lines.size(), 1U) << demanded.err;
  EXPECT_NE(lines[0].find("--backend 'nccl': segments stay with MPI: ranks 0 and 1 share device"), std::string::npos)
      << lines[0];
}

TEST(NcclPrograms, the_version_names_nccl_and_cuda) {
  const ProgramResult result = run_program({MATRIXFSDP_TRAIN_NCCL_DOUBLE, "--version"}, seeded);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(has(result.out, "NCCL 2.")) << result.out;
  EXPECT_TRUE(has(result.out, ", CUDA ")) << result.out;
}

// A row by NCCL for every operation and table, with every element in its place.
TEST(NcclPrograms, the_benchmarks_run_over_nccl) {
  const ProgramResult result =
      run_program({MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH_NCCL_DOUBLE, "collectives", "--bytes", "120004",
                   "--algorithm", "direct", "--rounds", "1", "--backend", "nccl", "--json"},
                  seeded);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto report = nlohmann::json::parse(result.out);
  int rows = 0;
  for (const auto& row : report["rows"]) {
    EXPECT_EQ(row["wrong"], 0) << row;
    if (row["algorithm"] != "nccl") continue;
    ++rows;
    EXPECT_TRUE(row["predicted_seconds"].is_null()) << row;
    EXPECT_TRUE(row["choice"].is_null()) << row;
  }
  EXPECT_EQ(rows, 2 * 3);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train-step", "--model", "gpt2:d2", "--seq-len", "32", "--micro-batch", "1"},
        std::vector<std::string>{"overlap", "--units", "3", "--bytes", "48000", "--compute-ms", "2"}}) {
    std::vector<std::string> line = {MATRIXFSDP_MPIEXEC, "-n", "2", MATRIXFSDP_BENCH_NCCL_DOUBLE};
    line.insert(line.end(), command.begin(), command.end());
    line.insert(line.end(), {"--rounds", "1", "--backend", "nccl", "--json"});
    const ProgramResult more = run_program(line, seeded);
    EXPECT_EQ(more.exit_code, 0) << more.err;
    EXPECT_TRUE(has(more.err, "segments by NCCL 2.")) << more.err;
  }
}

}  // namespace
}  // namespace matrixfsdp
