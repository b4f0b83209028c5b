#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

// --step-in-backward as a user meets it.
namespace matrixfsdp {
namespace {

using testing::run_train;
using testing::text_folder;

struct Trained {
  std::vector<std::string> bits;  ///< of the losses
  nlohmann::json summary;
};

Trained run_of(const std::string& folder, int ranks, const std::vector<std::string>& more,
               const std::string& steps = "5") {
  const std::string metrics = folder + "/metrics.jsonl";
  const testing::Arguments run{"--layers",    "3", "--hidden",      "48",       "--heads",   "4",     "--steps", steps,
                               "--grad-clip", "0", "--lr-schedule", "constant", "--metrics", metrics, "--json"};
  const auto result = run_train(ranks, testing::small_run(folder, testing::joined(run, more)));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  Trained trained;
  for (const auto& line : testing::steps_of(metrics)) {
    trained.bits.push_back(line["loss_bits"]);
    EXPECT_EQ(line["bytes"]["optimizer"], 0);
    EXPECT_GT(line["milliseconds"]["optimizer"].get<double>(), 0);
  }
  if (result.exit_code == 0) trained.summary = nlohmann::json::parse(result.out);
  return trained;
}

void expect_memory(const nlohmann::json& summary) {
  for (const char* figure : {"gradient_bytes", "owned_bytes", "window_bytes"})
    EXPECT_EQ(summary[figure], summary["predicted_" + std::string(figure)]) << figure;
}

// The same losses and weights as afterwards; gradients of units in flight, as the plan says, where a step has one pass.
TEST(TrainStepInBackward, same_bits_and_less_memory) {
  const std::string folder = text_folder("step-in-backward");
  const Trained reference = run_of(folder, 1, {});
  ASSERT_EQ(reference.bits.size(), 5U);
  for (const int ranks : {1, 2, 3, 4}) {
    const Trained many = run_of(folder, ranks, {"--step-in-backward", "--verify"});
    EXPECT_EQ(many.bits, reference.bits) << ranks;
    expect_memory(many.summary);
    const std::string whole = std::to_string(12 / ranks);  // one pass
    const Trained after = run_of(folder, ranks, {"--micro-batch", whole});
    const Trained one = run_of(folder, ranks, {"--micro-batch", whole, "--step-in-backward"});
    EXPECT_EQ(one.bits, after.bits) << ranks;
    expect_memory(one.summary);
    expect_memory(after.summary);
    EXPECT_LT(one.summary["gradient_bytes"].get<std::int64_t>(), after.summary["gradient_bytes"].get<std::int64_t>());
    EXPECT_LT(one.summary["peak_bytes"].get<std::int64_t>(), after.summary["peak_bytes"].get<std::int64_t>());
  }
  const std::vector<std::vector<std::string>> ways{{"--reshard", "no"},
                                                   {"--reshard", "2"},
                                                   {"--shard-size", "2"},
                                                   {"--shard-size", "1"},
                                                   {"--prefetch", "0", "--reduces-in-flight", "0"},
                                                   {"--reduces-in-flight", "2", "--progress", "poll"},
                                                   {"--recompute", "--collective", "chain"}};
  for (std::vector<std::string> more : ways) {
    more.emplace_back("--step-in-backward");
    const Trained run = run_of(folder, 4, more);
    EXPECT_EQ(run.bits, reference.bits) << more[0] << " " << more[1];
    expect_memory(run.summary);
  }
}

// The optimizer of a rank with several threads steps as many matrices at once, also in backward and while it measures
// them; what it holds is what the plan says. Equal to a replica's steps (--verify), and on one rank and two.
TEST(TrainStepInBackward, ranks_with_several_threads_have_the_same_bits) {
  const std::string folder = text_folder("step-in-backward-threads");
  const Trained reference = run_of(folder, 1, {"--threads", "3"});
  ASSERT_EQ(reference.bits.size(), 5U);
  const std::vector<std::vector<std::string>> ways{{"--verify"}, {"--step-in-backward", "--health-every", "2"}};
  for (const int ranks : {1, 2}) {
    for (std::vector<std::string> more : ways) {
      more.insert(more.end(), {"--threads", "3"});
      const Trained run = run_of(folder, ranks, more);
      EXPECT_EQ(run.bits, reference.bits) << ranks << " " << more[0];
      expect_memory(run.summary);
    }
  }
}

// A checkpoint that is still being written when backward changes the weights, and a run that goes on from it.
TEST(TrainStepInBackward, checkpoints_are_those_of_a_step_afterwards) {
  const std::string folder = text_folder("step-in-backward-saves");
  const Trained whole = run_of(folder, 3, {});
  std::vector<std::string> bits;
  for (const std::string steps : {"2", "3", "5"}) {
    const Trained part = run_of(folder, 3,
                                {"--step-in-backward", "--checkpoint-dir", folder + "/checkpoints",
                                 "--checkpoint-every", "1", "--resume", "auto"},
                                steps);
    bits.insert(bits.end(), part.bits.begin(), part.bits.end());
  }
  bits.erase(bits.begin(), bits.end() - 5);  // the file of metrics goes on too
  EXPECT_EQ(bits, whole.bits);
}

TEST(TrainStepInBackward, what_it_cannot_do_is_named) {
  const std::string folder = text_folder("step-in-backward-bad");
  const auto said = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--data", folder + "/text.txt", "--step-in-backward"});
    const auto result = run_train(2, more);
    EXPECT_EQ(result.exit_code, 2);
    const std::vector<std::string> lines = testing::lines_of(result.err);
    return lines.empty() ? std::string() : lines.back();
  };
  const std::string clipped = said({"--batch-size", "2"});
  EXPECT_NE(clipped.find("--step-in-backward"), std::string::npos) << clipped;
  EXPECT_NE(clipped.find("--grad-clip 1"), std::string::npos) << clipped;
  for (const std::string strategy : {"ddp", "zero1-owner", "fsdp2", "fsdp2-gather", "fsdp2-alltoall"}) {
    const std::string line = said({"--grad-clip", "0", "--strategy", strategy});
    EXPECT_NE(line.find("step in backward"), std::string::npos) << line;
    EXPECT_NE(line.find(strategy), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace matrixfsdp
