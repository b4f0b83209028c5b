#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/index_file.hpp>

#include "support/golden_checkpoint.hpp"
#include "support/stored_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::golden_folder;
using testing::golden_model;
using testing::golden_value;
using testing::stored_tensor;

// A checkpoint of the first program that wrote this version of the format. It is never written anew: what cannot read
// it breaks the checkpoints that users have.
TEST(GoldenCheckpoint, LoadsForEver) {
  io::CheckpointReader reader(golden_folder(2));
  const io::Manifest& manifest = reader.manifest();
  EXPECT_EQ(manifest.state.step, 12);
  EXPECT_EQ(manifest.state.optimizer_steps, 11);
  EXPECT_EQ(manifest.state.seed, 0xfedcba9876543210ULL);
  EXPECT_EQ(manifest.state.data_step, 12);
  EXPECT_EQ(manifest.state.sum_group, 2);
  EXPECT_EQ(manifest.state.loss, 1.25);
  EXPECT_EQ(nlohmann::json::parse(manifest.state.schedule), nlohmann::json({{"kind", "cosine"}}));
  EXPECT_EQ(nlohmann::json::parse(manifest.state.configuration), nlohmann::json({{"lr", 0.1}}));
  EXPECT_EQ(manifest.planner, "balanced");
  EXPECT_EQ(manifest.world_size, 2);
  EXPECT_EQ(hash_of(manifest.model), hash_of(golden_model()));
  for (const io::StoredFile& file : manifest.files)
    reader.verify(file);
  io::verify_index_file(reader.folder(), manifest);
  ASSERT_EQ(manifest.files.size(), 3U);
  ASSERT_EQ(reader.tensors().size(), 4U + 1 + 2);
  for (const auto& [tensor, segments] : reader.tensors()) {
    const std::string name(tensor.first);
    const std::string what(tensor.second);
    const auto values = stored_tensor(reader, name, what);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], golden_value(name, what, static_cast<std::int64_t>(i))) << name << ' ' << what << ' ' << i;
  }
  EXPECT_EQ(reader.tensors().at({"bias", "weight"}).size(), 2U) << "cut in two";
  EXPECT_EQ(reader.tensors().at({"up", "momentum"}).front()->optimizer, "muon");
  EXPECT_EQ(reader.tensors().at({"bias", "second_moment"}).front()->optimizer, "adamw");
}

}  // namespace
}  // namespace matrixfsdp
