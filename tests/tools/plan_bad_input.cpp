#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/bad_input.hpp"
#include "support/small_run.hpp"
#include "tools/plan_program.hpp"

namespace matrixfsdp {
namespace {

using testing::BadInput;
using testing::collective_profile;
using testing::fresh_folder;
using testing::joined;
using testing::measured_run;
using testing::run_plan;
using testing::write_file;

/// Of a small model on two ranks, and on eight of four nodes.
std::vector<std::string> two(const std::vector<std::string>& more) {
  return joined({"--model", "gpt2:d2", "--ranks", "2"}, more);
}
std::vector<std::string> eight(const std::vector<std::string>& more) {
  return joined({"--model", "gpt2:d2", "--ranks", "8", "--nodes", "4"}, more);
}

class BadPlanTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadPlanTest, is_one_clear_line_and_exit_code_2) {
  const BadInput& bad = GetParam();
  const std::string folder = fresh_folder("bad-plan-" + bad.name);
  write_file(folder + "/text", "not a profile");
  write_file(folder + "/nodes", collective_profile(8, 8));
  std::string damaged = collective_profile(8, 4);
  damaged.replace(damaged.find("0.001"), 5, "-0.01");
  write_file(folder + "/damaged", damaged);
  write_file(folder + "/measured", measured_run(2));
  ASSERT_EQ(run_plan(two({"--machine", "h200-node", "--write-machine", folder + "/machine"})).exit_code, 0);
  auto machine = nlohmann::json::parse(testing::read_file(folder + "/machine"));
  machine["gemm_flops_per_second"] = 0;
  write_file(folder + "/machine", machine.dump());
  testing::expect_refused(run_plan(arguments_of(bad, folder)), bad.said);
}

INSTANTIATE_TEST_SUITE_P(
    plan, BadPlanTest,
    ::testing::Values(
        BadInput{"no_model", {"--ranks", "8"}, {"--model", "gpt2:124m"}},
        BadInput{"unknown_model", {"--model", "gpt9", "--ranks", "8"}, {"gpt9", "llama:8b"}},
        BadInput{"no_ranks", {"--model", "gpt2:d2"}, {"--ranks", "from 1"}},
        BadInput{"zero_ranks", {"--model", "gpt2:d2", "--ranks", "0"}, {"--ranks", "0", "at least 1"}},
        BadInput{"too_many_ranks", {"--model", "gpt2:d2", "--ranks", "99999999999"}, {"--ranks", "99999999999"}},
        BadInput{"uneven_nodes", {"--model", "gpt2:d2", "--ranks", "8", "--nodes", "3"}, {"--nodes 3", "--ranks 8"}},
        BadInput{"more_nodes_than_ranks", two({"--nodes", "4"}), {"--nodes 4"}},
        BadInput{"threads_without_machine", two({"--threads", "3"}), {"--threads 3", "--machine"}},
        BadInput{"too_many_threads",
                 two({"--machine", "h200-node", "--threads", "99999999999"}),
                 {"--threads 99999999999", "65536"}},
        BadInput{"unknown_planner", two({"--planner", "best"}), {"best", "balanced"}},
        BadInput{"unknown_option", two({"--engine", "x"}), {"--engine"}},
        BadInput{"unknown_machine", two({"--machine", "b300"}), {"b300", "opened", "a100-8x8", "here"}},
        BadInput{"machine_is_text", two({"--machine", "FOLDER/text"}), {"text", "JSON"}},
        BadInput{"damaged_machine",
                 two({"--machine", "FOLDER/machine"}),
                 {"/machine'", "gemm_flops_per_second", "0", "above 0"}},
        BadInput{"more_ranks_than_the_machine",
                 {"--model", "gpt2:d2", "--ranks", "128", "--machine", "a100-8x8"},
                 {"--ranks 128", "64", "a100-8x8", "--nodes"}},
        BadInput{"broken_nodes",
                 {"--model", "gpt2:d2", "--ranks", "12", "--machine", "a100-8x8"},
                 {"--ranks 12", "multiple of 8"}},
        BadInput{"here_is_one_node",
                 {"--model", "gpt2:d2", "--ranks", "4", "--nodes", "2", "--machine", "here"},
                 {"--nodes 2", "here"}},
        BadInput{"recompute_of_nothing", two({"--recompute"}), {"--recompute", "--machine"}},
        BadInput{"batch_of_nothing", two({"--micro-batch", "4"}), {"--micro-batch 4", "--machine"}},
        BadInput{"unknown_dtype", two({"--param-dtype", "float16"}), {"float16", "bfloat16"}},
        BadInput{"planner_without_profile", two({"--planner", "profile"}), {"--planner profile", "--profile"}},
        BadInput{"profile_without_planner", two({"--profile", "FOLDER/measured"}), {"--profile", "--planner profile"}},
        BadInput{"metrics_without_times",
                 two({"--planner", "profile", "--profile", "FOLDER/text"}),
                 {"/text'", "optimizer_profile"}},
        BadInput{"times_of_another_model",
                 two({"--planner", "profile", "--profile", "FOLDER/measured"}),
                 {"block.0.attention.qkv", "384 x 128", "768 x 256"}},
        BadInput{"missing_profile", eight({"--collective-profile", "FOLDER/nowhere"}), {"nowhere", "opened"}},
        BadInput{"profile_is_text", eight({"--collective-profile", "FOLDER/text"}), {"text", "JSON"}},
        BadInput{"damaged_profile",
                 eight({"--collective-profile", "FOLDER/damaged"}),
                 {"damaged", "alpha_seconds", "-0.01", "0 or more"}},
        BadInput{"links_not_measured",
                 eight({"--collective-profile", "FOLDER/nodes"}),
                 {"/nodes'", "8 ranks on 8 nodes", "inside a node"}}),
    testing::name_of_case);

}  // namespace
}  // namespace matrixfsdp
