#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "support/small_run.hpp"

// --compute-dtype and --ns-dtype in whole runs, on a processor with bfloat16; what is said on one without.
namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::constant_run;
using testing::five_losses;
using testing::joined;
using testing::lines_of;
using testing::run_program;
using testing::run_train;
using testing::steps_of_run;
using testing::text_folder;

const Arguments both{"--compute-dtype", "bfloat16", "--ns-dtype", "bfloat16"};

/// True where there is no bfloat16 here, and the program has said so: one line, exit code 2.
bool is_refused(const std::string& folder) {
  const std::string obstacle = linalg::bfloat16_obstacle();
  if (obstacle.empty()) return false;
  for (const char* option : {"--compute-dtype", "--ns-dtype"}) {
    const auto result = run_train(1, constant_run(folder, {option, "bfloat16"}));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(std::string(option) + " bfloat16: " + obstacle), std::string::npos) << result.err;
  }
  return true;
}

TEST(Compute, the_same_bits_at_any_world_size_and_strategy) {
  const std::string folder = text_folder("compute-bits");
  if (is_refused(folder)) return;
  const auto expected = five_losses(folder, 1, joined(both, {"--strategy", "ddp"}));
  for (const int ranks : {1, 2, 3})
    EXPECT_EQ(five_losses(folder, ranks, both), expected) << ranks;
  EXPECT_EQ(five_losses(folder, 2, joined(both, {"--strategy", "fsdp2-gather"})), expected);
  EXPECT_EQ(five_losses(folder, 2, joined(both, {"--recompute"})), expected);
  // Each of the two changes the bits, or the comparisons above could not fail.
  const auto plain = five_losses(folder, 2, {});
  const auto compute = five_losses(folder, 2, {"--compute-dtype", "bfloat16"});
  const auto steps = five_losses(folder, 2, {"--ns-dtype", "bfloat16"});
  EXPECT_NE(compute, plain);
  EXPECT_NE(steps, plain);
  EXPECT_NE(compute, expected);
  EXPECT_NE(steps, expected);
}

// The same with 300 steps: tests/tools/bfloat16_losses.sh.
TEST(Compute, losses_stay_within_a_percent_of_float32) {
  const std::string folder = text_folder("compute-losses");
  if (is_refused(folder)) return;
  const Arguments run{"--batch-size", "8", "--steps", "60", "--adamw-lr", "0.001"};
  const auto plain = steps_of_run(folder, 1, constant_run(folder, run));
  for (const Arguments& rounded : {Arguments{"--compute-dtype", "bfloat16"}, both}) {
    const auto found = steps_of_run(folder, 1, constant_run(folder, joined(run, rounded)));
    ASSERT_EQ(found.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const double loss = plain[i]["loss"];
      EXPECT_NEAR(found[i]["loss"], loss, 0.01 * loss) << "step " << i + 1;
    }
  }
  EXPECT_LT(plain.back()["loss"].get<double>(), 0.8 * plain.front()["loss"].get<double>()) << "nothing was learned";
}

TEST(Compute, verify_compares_with_a_replica_that_computes_alike) {
  const std::string folder = text_folder("compute-verify");
  if (is_refused(folder)) return;
  const auto result =
      run_train(2, constant_run(folder, joined(both, {"--batch-size", "4", "--steps", "3", "--verify"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("every gradient and weight"), std::string::npos) << result.out;
}

// oneDNN's own variable hides the instructions from it.
TEST(Compute, a_processor_without_bfloat16_is_told_in_one_line) {
  const std::string folder = text_folder("compute-refused");
  if (is_refused(folder)) return;
  if (linalg::onednn_description() == "oneDNN: not built in") return;  // a device multiplies
  for (const char* option : {"--compute-dtype", "--ns-dtype"}) {
    const auto result = run_train(2, constant_run(folder, {option, "bfloat16"}),
                                  {{"ONEDNN_MAX_CPU_ISA", "AVX2"}, {"DNNL_MAX_CPU_ISA", "AVX2"}});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
    EXPECT_NE(result.err.find(std::string(option) + " bfloat16: this processor"), std::string::npos) << result.err;
  }
}

// tf32 is never a surprise: it is asked for by name, and an error where there is none.
TEST(Compute, tf32_is_refused_in_one_line_or_changes_the_bits) {
  const std::string folder = text_folder("compute-tf32");
  const std::string obstacle = linalg::tf32_obstacle();
  if (obstacle.empty()) {
    EXPECT_NE(five_losses(folder, 1, {"--math", "tf32"}), five_losses(folder, 1, {}));
    return;
  }
  const auto result = run_train(2, constant_run(folder, {"--math", "tf32"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_NE(result.err.find("--math tf32: " + obstacle), std::string::npos) << result.err;
}

TEST(Compute, what_cannot_be_is_refused) {
  const std::string folder = text_folder("compute-input");
  if (is_refused(folder)) return;
  struct Case {
    Arguments arguments;
    std::vector<std::string> said;
  };
  for (const Case& bad :
       {Case{{"--ns-dtype", "bfloat16", "--ns-algorithm", "gram"}, {"--ns-algorithm gram", "standard"}},
        Case{{"--ns-dtype", "bfloat16", "--strategy", "fsdp2"}, {"--ns-dtype", "fsdp2"}},
        Case{{"--compute-dtype", "float16"}, {"--compute-dtype", "float16", "bfloat16"}},
        Case{{"--ns-dtype", "half"}, {"--ns-dtype", "half", "bfloat16"}}}) {
    const auto result = run_train(1, constant_run(folder, bad.arguments));
    EXPECT_EQ(result.exit_code, 2);
    for (const std::string& part : bad.said)
      EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST(Compute, the_benchmarks_have_rows_of_bfloat16) {
  const std::string folder = text_folder("compute-bench");
  if (is_refused(folder)) return;
  const auto rows_of = [](Arguments arguments) {
    arguments.insert(arguments.begin(), MATRIXFSDP_BENCH);
    const auto result = run_program(joined(arguments, {"--rounds", "1", "--json"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("rows");
  };
  const auto steps = rows_of({"newton-schulz", "--shape", "64", "96", "--dtype", "float32", "bfloat16"});
  ASSERT_EQ(steps.size(), 6U);
  EXPECT_EQ(steps.back()["dtype"], "bfloat16");
  EXPECT_EQ(steps.back()["runs"], "standard");
  EXPECT_LT(steps.back()["error"].get<double>(), 3e-2);
  EXPECT_GT(steps.back()["error"].get<double>(), 1e-4);
  const auto training = rows_of({"train-step", "--model", "gpt2", "--compute-dtype", "float32", "bfloat16"});
  ASSERT_EQ(training.size(), 2U);
  EXPECT_EQ(training[0]["compute_dtype"], "float32");
  EXPECT_EQ(training[1]["compute_dtype"], "bfloat16");
}

}  // namespace
}  // namespace matrixfsdp
