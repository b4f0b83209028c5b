#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"

namespace matrixfsdp {
namespace {

constexpr const char* half = "3";  ///< the step of the checkpoint
constexpr const char* whole = "6";

/// loss_bits of the steps of a run on `ranks` ranks.
std::vector<std::string> losses(const std::string& folder, int ranks, const std::string& shard_size,
                                const std::vector<std::string>& more) {
  std::filesystem::remove(folder + "/metrics.jsonl");  // a resumed run appends
  const testing::Arguments run{"--seq-len", "16", "--model", "llama", "--batch-size", "8", "--shard-size", shard_size};
  return testing::loss_bits_of(
      testing::steps_of_run(folder, ranks, testing::constant_run(folder, testing::joined(run, more))));
}

// CASES 49, 50: whatever the shard groups that wrote it and those that read it, of as many ranks or of fewer, a run
// goes on as if nothing had happened.
TEST(TrainShardSizes, a_checkpoint_of_one_shard_size_goes_on_in_any_other) {
  const std::string folder = testing::text_folder("shard-sizes", 20000);
  const auto through = losses(folder, 4, "4", {"--steps", whole});
  ASSERT_EQ(through.size(), 6U);
  const std::vector<std::string> rest(through.begin() + 3, through.end());
  for (const std::string saved : {"4", "2", "1"}) {
    const std::string checkpoints = folder + "/saved-" + saved;
    const auto first = losses(folder, 4, saved, {"--steps", half, "--checkpoint-dir", checkpoints});
    EXPECT_TRUE(std::equal(first.begin(), first.end(), through.begin(), through.begin() + 3)) << saved;
    for (const auto& [ranks, loaded] : {std::pair<int, std::string>{4, "4"}, {4, "2"}, {4, "1"}, {2, "2"}, {2, "1"}}) {
      if (ranks == 4 && loaded == saved) continue;
      EXPECT_EQ(losses(folder, ranks, loaded, {"--steps", whole, "--resume", checkpoints + "/step_00000003"}), rest)
          << "from shard size " << saved << " of 4 ranks to " << loaded << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
