#include <cstdint>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/ckpt_program.hpp"
#include "support/process_use.hpp"
#include "support/stored_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::ckpt;
using testing::ckpt_json;
using testing::fresh_folder;
using testing::read_file;
using testing::store_checkpoint;

namespace fs = std::filesystem;

/// All files are equal, byte for byte.
void expect_equal_files(const std::string& a, const std::string& b) {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(a)) {
    const std::string name = fmt::format("/{}", entry.path().filename().string());
    EXPECT_EQ(read_file(a + name), read_file(b + name)) << name;
    ++files;
  }
  EXPECT_EQ(static_cast<std::size_t>(std::distance(fs::directory_iterator(b), {})), files);
}

// From W to W' and back: what that many ranks would have saved, to the last byte.
TEST(CkptReshard, any_ranks_to_any) {
  const std::string folder = fresh_folder("reshard");
  const ModelSpec model = checkpoint_model();
  for (const int ranks : {1, 2, 3, 4, 8, 40})
    store_checkpoint(fmt::format("{}/w{}", folder, ranks), model, ranks);
  for (const int from : {1, 3, 8, 40}) {
    for (const int to : {1, 2, 4, 8, 40}) {
      const std::string target = fmt::format("{}/{}-{}", folder, from, to);
      const auto made =
          ckpt_json({"reshard", fmt::format("{}/w{}", folder, from), target, "--ranks", std::to_string(to)}, 0);
      EXPECT_EQ(made["checkpoint"], target + "/step_00000012");
      expect_equal_files(fmt::format("{}/w{}/step_00000012", folder, to), target + "/step_00000012");
      EXPECT_EQ(read_file(target + "/latest"), "step_00000012\n");
      fs::remove_all(target);
    }
  }
}

TEST(CkptReshard, every_planner_and_the_same_values) {
  const std::string folder = fresh_folder("planners");
  const std::string source = store_checkpoint(folder + "/a", checkpoint_model(), 3);
  for (const std::string policy : {"role", "scope", "cost", "balanced"}) {
    const std::string target = folder + "/" + policy;
    EXPECT_EQ(ckpt_json({"reshard", source, target, "--ranks", "5", "--planner", policy}, 0)["planner"], policy);
    EXPECT_EQ(ckpt({"diff", "--all", source, target}).exit_code, 0);
    EXPECT_EQ(ckpt({"verify", target}).exit_code, 0);
  }
}

TEST(CkptReshard, nothing_is_overwritten_and_damage_is_not_passed_on) {
  const std::string folder = fresh_folder("refused");
  const std::string source = store_checkpoint(folder + "/a", checkpoint_model(), 2);
  store_checkpoint(folder + "/b", checkpoint_model(), 2);
  const auto there = ckpt({"reshard", source, folder + "/b", "--ranks", "4"});
  EXPECT_EQ(there.exit_code, 2);
  EXPECT_NE(there.err.find("overwritten"), std::string::npos) << there.err;
  std::string bytes = read_file(source + "/rank_00001.h5");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  testing::write_file(source + "/rank_00001.h5", bytes);
  const auto damaged = ckpt({"reshard", source, folder + "/c", "--ranks", "4"});
  EXPECT_EQ(damaged.exit_code, 2);
  EXPECT_NE(damaged.err.find("rank_00001.h5"), std::string::npos) << damaged.err;
  EXPECT_TRUE(fs::is_empty(folder + "/c")) << "nothing half made";
}

// A tensor of 32 MiB and 8 of 4 MiB, for more ranks than files are open at a time.
TEST(CkptReshard, memory_is_bounded_by_the_largest_tensor_and_64_megabytes) {
  const std::string folder = fresh_folder("bounded");
  ModelSpec model;
  model.units.push_back({"root", {test::embedding("table", {1 << 13, 1 << 10})}, true});
  for (int i = 0; i < 8; ++i) {
    const std::string name = fmt::format("block.{}", i);
    model.units.push_back({name, {testing::parameter(name + ".up", {1 << 10, 1 << 10})}});
  }
  const std::string source = store_checkpoint(folder + "/a", model, 8);
  constexpr std::int64_t mebibyte = 1 << 20;
  const std::int64_t peak = testing::ckpt_peak_bytes({"reshard", source, folder + "/b", "--ranks", "40"});
  RecordProperty("peak_bytes", std::to_string(peak));
  if (!testing::sanitized) {
    EXPECT_LT(peak, (32 + 64) * mebibyte);
  }
  EXPECT_GT(peak, 32 * mebibyte) << "what is measured is the process that holds the tensor";
  EXPECT_EQ(ckpt({"diff", "--all", source, folder + "/b"}).exit_code, 0);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace matrixfsdp
