#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

namespace matrixfsdp {
namespace {

using testing::fresh_folder;
using testing::run_train;
using testing::sample_text;
using testing::text_folder;
using testing::write_file;

/// Steps of each run: a few by default, 200 with MATRIXFSDP_LONG_STEPS=200.
std::string step_count() {
  const char* text = std::getenv("MATRIXFSDP_LONG_STEPS");
  return text != nullptr ? text : "6";
}

/// loss_bits of every step.
std::vector<std::string> losses(const std::string& folder, const std::string& name, int ranks,
                                const testing::Arguments& arguments) {
  const std::string metrics = folder + "/" + name + ".jsonl";
  const testing::Arguments run{"--hidden", "48",         "--heads",     "4",   "--batch-size", "24",
                               "--steps",  step_count(), "--grad-clip", "0.5", "--metrics",    metrics};
  const auto result = run_train(ranks, testing::small_run(folder, testing::joined(run, arguments)), {}, 900);
  EXPECT_EQ(result.exit_code, 0) << name << ": " << result.err;
  std::vector<std::string> bits;
  for (const auto& step : testing::steps_of(metrics)) {
    bits.push_back(step["loss_bits"]);
    EXPECT_EQ(step["bytes"]["optimizer"], 0);
  }
  EXPECT_EQ(bits.size(), std::stoul(step_count())) << name;
  return bits;
}

class EqualBits : public ::testing::TestWithParam<std::string> {};

// The same global batch gives the same bits: everything replicated on one rank, and owner-shaped shards on any number
// of ranks (one to 24 passes), under every planner policy, with clipping. CASES 3, 9, 10, 30, 68.
TEST_P(EqualBits, any_world_size_policy_and_strategy) {
  const std::string model = GetParam();
  const std::string folder = text_folder("equal-bits-" + model);
  const auto reference = losses(folder, "ddp-1", 1, {"--model", model, "--strategy", "ddp"});
  for (const int ranks : {2, 3, 4, 8}) {
    EXPECT_EQ(losses(folder, "ddp-" + std::to_string(ranks), ranks, {"--model", model, "--strategy", "ddp"}),
              reference);
  }
  for (const int ranks : {1, 2, 3, 4, 8}) {
    EXPECT_EQ(losses(folder, "owner-" + std::to_string(ranks), ranks, {"--model", model}), reference) << ranks;
  }
  for (const std::string policy : {"role", "scope", "cost"}) {
    EXPECT_EQ(losses(folder, policy, 3, {"--model", model, "--planner", policy, "--prefetch", "2"}), reference)
        << policy;
  }
  for (const std::string way : {"direct", "chain", "tree", "hierarchical", "padded", "allgatherv", "auto"}) {
    EXPECT_EQ(losses(folder, way, 3, {"--model", model, "--collective", way}), reference) << way;
  }
  for (const std::string size : {"1", "2"}) {
    EXPECT_EQ(losses(folder, "shard-size-" + size, 4, {"--model", model, "--shard-size", size}), reference) << size;
  }
  for (const std::string reshard : {"no", "2"}) {
    EXPECT_EQ(losses(folder, "reshard-" + reshard, 4, {"--model", model, "--reshard", reshard}), reference) << reshard;
  }
  for (const std::string progress : {"thread", "poll"}) {
    EXPECT_EQ(losses(folder, progress, 3, {"--model", model, "--reduces-in-flight", "2", "--progress", progress}),
              reference)
        << progress;
  }
  EXPECT_EQ(losses(folder, "recompute", 2, {"--model", model, "--recompute", "--prefetch", "0"}), reference);
  // A different order of summation must show, or the comparisons above could not fail.
  EXPECT_NE(losses(folder, "unsharded", 2, {"--model", model, "--accumulate", "unsharded"}), reference);
}

// Sums of groups first: other bits, which again know neither W nor who sums how. Groups of a rank's passes, of a pass,
// of several.
TEST(SumGroup, equal_bits_at_any_world_size_and_by_every_algorithm) {
  const std::string folder = text_folder("sum-group");
  const auto run = [&](const std::string& name, int ranks, std::vector<std::string> arguments) {
    return losses(folder, name, ranks, std::move(arguments));
  };
  const auto reference = run("ddp", 1, {"--strategy", "ddp", "--sum-group", "4"});
  EXPECT_NE(run("one-sum", 1, {}), reference) << "groups leave no trace: the comparisons below could not fail";
  EXPECT_NE(run("other-groups", 1, {"--sum-group", "12"}), reference);
  int ranks = 2;
  for (const std::string way : {"direct", "chain", "tree", "hierarchical", "scatter"}) {
    EXPECT_EQ(run(way, ranks, {"--sum-group", "4", "--reduce-collective", way}), reference) << way << ", W = " << ranks;
    ranks = ranks == 4 ? 8 : ranks == 8 ? 3 : ranks + 1;
  }
  EXPECT_EQ(run("auto", 3, {"--sum-group", "4", "--collective", "auto"}), reference);
  EXPECT_EQ(run("shards", 4, {"--sum-group", "4", "--reduce-collective", "chain", "--shard-size", "2"}), reference);
}

INSTANTIATE_TEST_SUITE_P(styles, EqualBits, ::testing::Values("gpt2", "llama"));

TEST(Verify, compares_every_gradient_and_weight) {
  const std::string folder = fresh_folder("verify");
  write_file(folder + "/text.txt", sample_text(20000));
  for (const int ranks : {1, 3}) {
    const auto result =
        run_train(ranks, {"--data", folder + "/text.txt", "--layers", "2", "--hidden", "32", "--heads", "2",
                          "--seq-len", "16", "--batch-size", "6", "--steps", "4", "--sample-tokens", "0", "--verify"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("every gradient and weight"), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace matrixfsdp
