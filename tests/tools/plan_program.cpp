#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.hpp"

/// mfsdp-plan as a user runs it: without mpiexec.
namespace matrixfsdp {
namespace {

using testing::collective_profile;
using testing::fresh_folder;
using testing::lines_of;
using testing::run_program;
using testing::write_file;

testing::ProgramResult run_plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MATRIXFSDP_PLAN);
  return run_program(arguments);
}

nlohmann::json plan_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const auto result = run_plan(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

TEST(PlanProgram, without_a_profile_no_times_are_invented) {
  const auto plan = plan_of({"--model", "gpt2:124m", "--ranks", "8", "--nodes", "4"});
  EXPECT_EQ(plan["planner"], "balanced");
  EXPECT_EQ(plan["world_size"], 8);
  EXPECT_EQ(plan["nodes"], 4);
  EXPECT_TRUE(plan["profile"].is_null());
  ASSERT_EQ(plan["ranks"].size(), 8U);
  std::int64_t matrices = 0;
  double bytes = 0;
  double most = 0;
  for (const auto& rank : plan["ranks"]) {
    matrices += rank["matrices"].get<std::int64_t>();
    bytes += rank["bytes"].get<double>();
    most = std::max(most, rank["bytes"].get<double>());
  }
  EXPECT_EQ(matrices, 12 * 4) << "qkv is one parameter";
  EXPECT_DOUBLE_EQ(plan["imbalance"]["bytes"], most * 8 / bytes);
  for (const char* what : {"bytes", "flops"})
    EXPECT_GE(plan["imbalance"][what].get<double>(), plan["lower_bound"][what].get<double>());
  ASSERT_EQ(plan["units"].size(), 13U);
  EXPECT_EQ(plan["units"][0]["name"], "root");
  EXPECT_EQ(plan["units"][12]["name"], "block.11");
  for (const auto& unit : plan["units"]) {
    EXPECT_GE(unit["gamma"].get<double>(), 1);
    EXPECT_TRUE(unit["unshard"].is_null() && unit["reduce"].is_null()) << unit;
  }
  const auto text = run_plan({"--model", "gpt2:124m", "--ranks", "8"});
  EXPECT_NE(text.out.find("no times are predicted"), std::string::npos) << text.out;
  EXPECT_EQ(text.err, "");
}

// 2 ranks on 2 nodes, a hop 1 ms, a byte 1 ns: a rank sends its own half of the unit's bytes, and nothing is faster.
TEST(PlanProgram, a_profile_predicts_each_unit) {
  const std::string profile = fresh_folder("plan-profile") + "/profile.json";
  write_file(profile, collective_profile(2, 2));
  const auto plan = plan_of({"--model", "gpt2:d2", "--ranks", "2", "--nodes", "2", "--collective-profile", profile});
  EXPECT_EQ(plan["profile"]["world_size"], 2);
  double bytes = 0;
  for (const auto& rank : plan["ranks"])
    bytes += rank["bytes"].get<double>();
  for (const auto& unit : plan["units"]) {
    for (const char* phase : {"unshard", "reduce"}) {
      EXPECT_EQ(unit[phase]["collective"], phase == std::string("unshard") ? "direct" : "scatter") << unit;
      EXPECT_GT(unit[phase]["predicted_seconds"].get<double>(), 1e-3) << "one hop, and bytes";
      EXPECT_LT(unit[phase]["predicted_seconds"].get<double>(), 1e-3 + bytes * 1e-9);
    }
  }
  const auto text = run_plan({"--model", "gpt2:d2", "--ranks", "2", "--nodes", "2", "--collective-profile", profile});
  EXPECT_NE(text.out.find("predicted ms"), std::string::npos) << text.out;
  EXPECT_EQ(text.err, "");
}

TEST(PlanProgram, figures_of_another_job_are_a_forecast_and_that_is_said) {
  const std::string profile = fresh_folder("plan-forecast") + "/profile.json";
  write_file(profile, collective_profile(8, 4));
  const auto result =
      run_plan({"--model", "gpt2:d2", "--ranks", "16", "--nodes", "8", "--collective-profile", profile, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["profile"]["nodes"], 4);
  ASSERT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_NE(result.err.find("8 ranks on 4 nodes, not 16 on 8"), std::string::npos) << result.err;
}

TEST(PlanProgram, help_and_version) {
  const auto help = run_plan({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* word : {"--ranks", "--collective-profile", "Example"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  const auto version = run_plan({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.rfind("MatrixFSDP ", 0), 0U) << version.out;
}

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
        BadPlan{"unknown_planner", {"--model", "gpt2:d2", "--ranks", "2", "--planner", "best"}, {"best", "balanced"}},
        BadPlan{"unknown_option", {"--model", "gpt2:d2", "--ranks", "2", "--machine", "x"}, {"--machine"}},
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
