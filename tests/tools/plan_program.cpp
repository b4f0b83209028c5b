#include "tools/plan_program.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace matrixfsdp {
namespace {

using testing::collective_profile;
using testing::fresh_folder;
using testing::lines_of;
using testing::plan_of;
using testing::run_plan;
using testing::write_file;

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

// Gradients of two units in flight, where a step has one pass: of a block each, or of a block and the root.
TEST(PlanProgram, steps_in_backward_need_fewer_gradients) {
  const std::vector<std::string> model{"--model", "gpt2:124m", "--ranks", "8"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = model;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return plan_of(arguments);
  };
  const auto afterwards = with({});
  const auto stepped = with({"--step-in-backward"});
  const auto passes = with({"--step-in-backward", "--passes", "2"});
  for (std::size_t r = 0; r < 8; ++r) {
    const auto figure = [r](const nlohmann::json& plan, const char* name) {
      return plan["ranks"][r][name].get<std::int64_t>();
    };
    EXPECT_LT(figure(stepped, "gradient_bytes"), figure(afterwards, "gradient_bytes"));
    EXPECT_EQ(figure(afterwards, "bytes") - figure(stepped, "bytes"),
              figure(afterwards, "gradient_bytes") - figure(stepped, "gradient_bytes"));
    EXPECT_EQ(figure(passes, "gradient_bytes"), figure(afterwards, "gradient_bytes")) << "sums between passes";
  }
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
  for (const char* word :
       {"--ranks", "--collective-profile", "Example", "a100-8x8", "slow_ranks", "node_bytes_per_second"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  const auto version = run_plan({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.rfind("MatrixFSDP ", 0), 0U) << version.out;
}

}  // namespace
}  // namespace matrixfsdp
