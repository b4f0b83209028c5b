#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/plan/strategy.hpp>

#include "support/small_run.hpp"

// --strategy as a user meets it: every name trains, is verified, and goes on from another's checkpoint.
namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::loss_bits_of;
using testing::run_train;
using testing::text_folder;

// CASES 68: all that there are; a new one cannot be left out.
std::vector<std::string> strategies() {
  std::vector<std::string> names;
  for (const StrategyKind kind : strategy_kinds())
    names.emplace_back(name_of(kind));
  return names;
}

Arguments arguments_of(const std::string& folder, const std::string& strategy, const Arguments& more) {
  return testing::small_run(folder, testing::joined({"--batch-size", "6", "--strategy", strategy}, more));
}

TEST(TrainStrategies, help_says_what_each_one_does) {
  const auto result = run_train(1, {"--help"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const std::string& strategy : strategies())
    EXPECT_NE(result.out.find(strategy + ":"), std::string::npos) << strategy;
}

// CASES 49: steps 1 and 2 under one strategy, 3 and 4 under the next: the losses of matrix-fsdp in one go.
TEST(TrainStrategies, every_one_goes_on_from_every_other) {
  const std::string folder = text_folder("strategies-resume");
  std::vector<std::string> found;
  const std::vector<std::string> order{"zero1-owner", "fsdp2-gather", "fsdp2-alltoall", "ddp"};
  for (std::size_t part = 0; part < order.size(); ++part) {
    const std::string metrics = folder + "/" + order[part];
    const auto result = run_train(
        3, arguments_of(folder, order[part],
                        {"--steps", std::to_string(2 * (part + 1)), "--lr-schedule", "constant", "--verify", "--resume",
                         "auto", "--checkpoint-dir", folder + "/checkpoints", "--metrics", metrics}));
    ASSERT_EQ(result.exit_code, 0) << order[part] << ": " << result.err;
    for (const std::string& bits : loss_bits_of(metrics))
      found.push_back(bits);
  }
  const auto constant =
      run_train(3, arguments_of(folder, "matrix-fsdp",
                                {"--steps", "8", "--lr-schedule", "constant", "--metrics", folder + "/constant"}));
  ASSERT_EQ(constant.exit_code, 0) << constant.err;
  EXPECT_EQ(found, loss_bits_of(folder + "/constant"));
}

// CASES 68: on three ranks.
TEST(TrainStrategies, predicted_memory_is_the_counted_one) {
  for (const std::string& strategy : strategies()) {
    for (const std::string optimizer : {"muon", "adamw"}) {
      const std::string folder = text_folder("strategies-memory");
      const auto result =
          run_train(3, arguments_of(folder, strategy, {"--steps", "2", "--optimizer", optimizer, "--json"}));
      ASSERT_EQ(result.exit_code, 0) << strategy << ": " << result.err;
      const auto summary = nlohmann::json::parse(result.out);
      EXPECT_EQ(summary["owned_bytes"], summary["predicted_owned_bytes"]) << strategy;
      EXPECT_EQ(summary["window_bytes"], summary["predicted_window_bytes"]) << strategy;
      EXPECT_TRUE(std::isfinite(summary["last_loss"].get<double>()));
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
