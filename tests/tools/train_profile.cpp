#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

/// Measured times from one run's metrics to the plan of the next.
namespace matrixfsdp {
namespace {

using testing::fresh_folder;
using testing::lines_of;
using testing::read_json_lines;
using testing::run_program;
using testing::run_train;
using testing::sample_text;
using testing::text_folder;
using testing::write_file;

/// The catalogue's model, so that mfsdp-plan knows it too.
std::vector<std::string> named_run(const std::string& folder, const std::string& metrics,
                                   const std::vector<std::string>& more) {
  return testing::joined({"--data", folder + "/text.txt", "--model", "gpt2:d2", "--seq-len", "32", "--batch-size", "6",
                          "--steps", "3", "--sample-tokens", "0", "--metrics", folder + "/" + metrics},
                         more);
}

nlohmann::json profile_of(const std::string& path) {
  nlohmann::json found;
  for (const auto& line : read_json_lines(path)) {
    if (line.contains("optimizer_profile")) found = line["optimizer_profile"];
  }
  return found;
}

TEST(TrainProfile, a_run_measures_and_the_next_plans_by_it) {
  const std::string folder = text_folder("train-profile");
  const auto first = run_train(3, named_run(folder, "run.jsonl", {}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const auto profile = profile_of(folder + "/run.jsonl");
  ASSERT_FALSE(profile.is_null());
  EXPECT_EQ(profile["world_size"], 3);
  std::int64_t steps = 0;
  std::set<int> ranks;
  for (const auto& one : profile["measured"]) {
    EXPECT_GT(one["seconds"].get<double>(), 0) << one;
    EXPECT_LT(one["seconds"].get<double>(), 60) << one;
    steps += one["steps"].get<std::int64_t>();
    ranks.insert(one["rank"].get<int>());
  }
  EXPECT_EQ(steps, 2 * 8) << "8 matrices, and the first of three steps does not count";
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));

  // Only the owners change: the bits do not.
  const std::vector<std::string> by_profile = {"--planner", "profile", "--profile", folder + "/run.jsonl"};
  const auto second = run_train(3, named_run(folder, "second.jsonl", by_profile));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("plan profile"), std::string::npos) << second.err;
  const auto before = read_json_lines(folder + "/run.jsonl");
  const auto after = read_json_lines(folder + "/second.jsonl");
  for (std::size_t line = 1; line <= 3; ++line)
    EXPECT_EQ(before[line].at("loss_bits"), after[line].at("loss_bits")) << line;

  const auto planned = run_program({MATRIXFSDP_PLAN, "--model", "gpt2:d2", "--ranks", "3", "--planner", "profile",
                                    "--profile", folder + "/run.jsonl", "--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_GT(nlohmann::json::parse(planned.out)["ranks"][0]["seconds"].get<double>(), 0);

  const auto other = run_train(2, named_run(folder, "other.jsonl", by_profile));
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(other.err.find("measured on 3 ranks, not 2"), std::string::npos) << other.err;
}

TEST(TrainProfile, bad_input_is_one_clear_line_and_exit_code_2) {
  const std::string folder = fresh_folder("train-profile-bad");
  write_file(folder + "/text.txt", sample_text(20000));
  write_file(folder + "/empty.jsonl", "{\"step\":1}\n");
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{"--planner", "profile"}, {"--planner profile", "--profile"}},
      {{"--profile", folder + "/empty.jsonl"}, {"empty.jsonl", "--planner profile"}},
      {{"--planner", "profile", "--profile", folder + "/nowhere"}, {"nowhere", "opened"}},
      {{"--planner", "profile", "--profile", folder + "/empty.jsonl"}, {"empty.jsonl", "optimizer_profile"}}};
  for (const Case& bad : cases) {
    const auto result = run_train(2, named_run(folder, "run.jsonl", bad.arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    bool found = false;
    for (const std::string& line : lines_of(result.err)) {
      bool all = true;
      for (const std::string& word : bad.said)
        all = all && line.find(word) != std::string::npos;
      found = found || all;
    }
    EXPECT_TRUE(found) << bad.said[0] << " in: " << result.err;
  }
}

}  // namespace
}  // namespace matrixfsdp
