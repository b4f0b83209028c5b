#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tools/plan_program.hpp"

namespace matrixfsdp {
namespace {

using testing::collective_profile;
using testing::fresh_folder;
using testing::lines_of;
using testing::measured_run;
using testing::run_plan;
using testing::write_file;

struct BadPlan {
  std::string name;
  std::vector<std::string> arguments;  ///< FOLDER stands for the test's folder
  std::vector<std::string> said;       ///< what the line must name
};

/// Names the case in test lists, which show the bytes of the struct otherwise.
void PrintTo(const BadPlan& bad, std::ostream* out) {
  *out << bad.name;
}

class BadPlanTest : public ::testing::TestWithParam<BadPlan> {};

TEST_P(BadPlanTest, is_one_clear_line_and_exit_code_2) {
  const BadPlan& bad = GetParam();
  const std::string folder = fresh_folder("bad-plan-" + bad.name);
  write_file(folder + "/text", "not a profile");
  write_file(folder + "/nodes", collective_profile(8, 8));
  std::string damaged = collective_profile(8, 4);
  damaged.replace(damaged.find("0.001"), 5, "-0.01");
  write_file(folder + "/damaged", damaged);
  write_file(folder + "/measured", measured_run(2));
  ASSERT_EQ(
      run_plan({"--model", "gpt2:d2", "--ranks", "2", "--machine", "h200-node", "--write-machine", folder + "/machine"})
          .exit_code,
      0);
  auto machine = nlohmann::json::parse(testing::read_file(folder + "/machine"));
  machine["gemm_flops_per_second"] = 0;
  write_file(folder + "/machine", machine.dump());
  std::vector<std::string> arguments;
  for (std::string word : bad.arguments) {
    if (const auto at = word.find("FOLDER"); at != std::string::npos) word.replace(at, 6, folder);
    arguments.push_back(word);
  }
  const auto result = run_plan(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_EQ(result.out, "");
  const auto lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 1U) << result.err;
  for (const std::string& word : bad.said)
    EXPECT_NE(lines[0].find(word), std::string::npos) << word << " in: " << lines[0];
}

INSTANTIATE_TEST_SUITE_P(
    plan, BadPlanTest,
    ::testing::Values(
        BadPlan{"no_model", {"--ranks", "8"}, {"--model", "gpt2:124m"}},
        BadPlan{"unknown_model", {"--model", "gpt9", "--ranks", "8"}, {"gpt9", "llama:8b"}},
        BadPlan{"no_ranks", {"--model", "gpt2:d2"}, {"--ranks", "from 1"}},
        BadPlan{"zero_ranks", {"--model", "gpt2:d2", "--ranks", "0"}, {"--ranks", "0", "at least 1"}},
        BadPlan{"too_many_ranks", {"--model", "gpt2:d2", "--ranks", "99999999999"}, {"--ranks", "99999999999"}},
        BadPlan{"uneven_nodes", {"--model", "gpt2:d2", "--ranks", "8", "--nodes", "3"}, {"--nodes 3", "--ranks 8"}},
        BadPlan{"more_nodes_than_ranks", {"--model", "gpt2:d2", "--ranks", "2", "--nodes", "4"}, {"--nodes 4"}},
        BadPlan{"threads_without_machine",
                {"--model", "gpt2:d2", "--ranks", "2", "--threads", "3"},
                {"--threads 3", "--machine"}},
        BadPlan{"too_many_threads",
                {"--model", "gpt2:d2", "--ranks", "2", "--machine", "h200-node", "--threads", "99999999999"},
                {"--threads 99999999999", "65536"}},
        BadPlan{"unknown_planner", {"--model", "gpt2:d2", "--ranks", "2", "--planner", "best"}, {"best", "balanced"}},
        BadPlan{"unknown_option", {"--model", "gpt2:d2", "--ranks", "2", "--engine", "x"}, {"--engine"}},
        BadPlan{"unknown_machine",
                {"--model", "gpt2:d2", "--ranks", "2", "--machine", "b300"},
                {"b300", "opened", "a100-8x8", "here"}},
        BadPlan{
            "machine_is_text", {"--model", "gpt2:d2", "--ranks", "2", "--machine", "FOLDER/text"}, {"text", "JSON"}},
        BadPlan{"damaged_machine",
                {"--model", "gpt2:d2", "--ranks", "2", "--machine", "FOLDER/machine"},
                {"/machine'", "gemm_flops_per_second", "0", "above 0"}},
        BadPlan{"more_ranks_than_the_machine",
                {"--model", "gpt2:d2", "--ranks", "128", "--machine", "a100-8x8"},
                {"--ranks 128", "64", "a100-8x8", "--nodes"}},
        BadPlan{"broken_nodes",
                {"--model", "gpt2:d2", "--ranks", "12", "--machine", "a100-8x8"},
                {"--ranks 12", "multiple of 8"}},
        BadPlan{"here_is_one_node",
                {"--model", "gpt2:d2", "--ranks", "4", "--nodes", "2", "--machine", "here"},
                {"--nodes 2", "here"}},
        BadPlan{"recompute_of_nothing",
                {"--model", "gpt2:d2", "--ranks", "2", "--recompute"},
                {"--recompute", "--machine"}},
        BadPlan{"batch_of_nothing",
                {"--model", "gpt2:d2", "--ranks", "2", "--micro-batch", "4"},
                {"--micro-batch 4", "--machine"}},
        BadPlan{"unknown_dtype",
                {"--model", "gpt2:d2", "--ranks", "2", "--param-dtype", "float16"},
                {"float16", "bfloat16"}},
        BadPlan{"planner_without_profile",
                {"--model", "gpt2:d2", "--ranks", "2", "--planner", "profile"},
                {"--planner profile", "--profile"}},
        BadPlan{"profile_without_planner",
                {"--model", "gpt2:d2", "--ranks", "2", "--profile", "FOLDER/measured"},
                {"--profile", "--planner profile"}},
        BadPlan{"metrics_without_times",
                {"--model", "gpt2:d2", "--ranks", "2", "--planner", "profile", "--profile", "FOLDER/text"},
                {"/text'", "optimizer_profile"}},
        BadPlan{"times_of_another_model",
                {"--model", "gpt2:d2", "--ranks", "2", "--planner", "profile", "--profile", "FOLDER/measured"},
                {"block.0.attention.qkv", "384 x 128", "768 x 256"}},
        BadPlan{"missing_profile",
                {"--model", "gpt2:d2", "--ranks", "8", "--nodes", "4", "--collective-profile", "FOLDER/nowhere"},
                {"nowhere", "opened"}},
        BadPlan{"profile_is_text",
                {"--model", "gpt2:d2", "--ranks", "8", "--nodes", "4", "--collective-profile", "FOLDER/text"},
                {"text", "JSON"}},
        BadPlan{"damaged_profile",
                {"--model", "gpt2:d2", "--ranks", "8", "--nodes", "4", "--collective-profile", "FOLDER/damaged"},
                {"damaged", "alpha_seconds", "-0.01", "0 or more"}},
        BadPlan{"links_not_measured",
                {"--model", "gpt2:d2", "--ranks", "8", "--nodes", "4", "--collective-profile", "FOLDER/nodes"},
                {"/nodes'", "8 ranks on 8 nodes", "inside a node"}}),
    [](const auto& bad) { return bad.param.name; });

}  // namespace
}  // namespace matrixfsdp
