#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/index_file.hpp>

#include "support/full_disk.hpp"
#include "support/stored_checkpoint.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::FormulaSource;
using testing::FullDisk;
using testing::mentions;
using testing::message_of;
using testing::read_bytes;
using testing::store_checkpoint;
using testing::stored_tensor;
using testing::stored_value;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

std::size_t entries_of(const std::string& folder) {
  return fs::exists(folder) ? static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})) : 0;
}

// Every element is where the plan says, and has its value; 40 ranks are more than are open at a time.
TEST(CheckpointWriter, WritesWhatRanksWouldHave) {
  const ModelSpec model = checkpoint_model();
  for (const int ranks : {1, 2, 3, 40}) {
    const TemporaryFolder folder;
    const std::string step = store_checkpoint(folder / "new", model, ranks);
    EXPECT_EQ(step, folder / "new/step_00000012");
    EXPECT_EQ(read_bytes(folder / "new/latest"), "step_00000012\n");
    io::CheckpointReader reader(step);
    EXPECT_EQ(reader.manifest().world_size, ranks);
    EXPECT_EQ(hash_of(reader.manifest().model), hash_of(model));
    for (const io::StoredFile& file : reader.manifest().files)
      reader.verify(file);
    io::verify_index_file(step, reader.manifest());
    const Plan plan = make_plan(model, ranks);
    for (const auto& [tensor, segments] : reader.tensors()) {
      const std::string name(tensor.first);
      const std::string what(tensor.second);
      const auto values = stored_tensor(reader, name, what);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], stored_value(1, name, what, static_cast<std::int64_t>(i))) << name << ' ' << what;
    }
    std::map<std::string, std::set<int>> expected;
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      for (const Segment& segment : plan.units[u].weights.segments)
        expected[model.units[u].parameters[segment.parameter].name].insert(segment.rank);
    }
    for (const auto& [name, holders] : expected) {
      std::set<int> found;
      for (const io::StoredSegment* segment : reader.tensors().at({name, "weight"}))
        found.insert(std::stoi(segment->file.substr(5, 5)));
      EXPECT_EQ(found, holders) << name;
    }
  }
}

TEST(CheckpointWriter, NothingIsOverwritten) {
  const TemporaryFolder folder;
  folder.write("new/mine", "x");
  EXPECT_TRUE(mentions(message_of<InputError>([&] { store_checkpoint(folder / "new", checkpoint_model(), 2); }),
                       {folder / "new", "'mine'", "overwritten"}));
  EXPECT_TRUE(mentions(message_of<InputError>([&] { store_checkpoint(folder / "new/mine", checkpoint_model(), 2); }),
                       {folder / "new/mine", "not a folder"}));
  EXPECT_EQ(entries_of(folder / "new"), 1U);
}

/// Fails at its last tensor.
class FailingSource : public FormulaSource {
 public:
  using FormulaSource::FormulaSource;
  void read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) override {
    if (parameter.name == "block.1.bias" && kind.what == "second_moment") throw IoError("the source is damaged");
    FormulaSource::read(parameter, kind, values);
  }
};

TEST(CheckpointWriter, WhatFailsLeavesNothing) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "new");
  io::Manifest manifest;
  manifest.model = checkpoint_model();
  FailingSource source(1);
  EXPECT_TRUE(mentions(message_of<IoError>([&] {
                         io::write_checkpoint(folder / "new", manifest, make_plan(manifest.model, 3), source);
                       }),
                       {"the source is damaged"}));
  EXPECT_EQ(entries_of(folder / "new"), 0U);
  for (const std::int64_t room : {0, 5000, 40000}) {
    const FullDisk disk(folder.path(), room);
    EXPECT_TRUE(
        mentions(message_of<IoError>([&] { store_checkpoint(folder / "new", checkpoint_model(), 3); }), {"No space left"}));
    EXPECT_EQ(entries_of(folder / "new"), 0U);
  }
  for (const char* file : {"checkpoint.h5", "manifest.json"}) {
    const FullDisk disk(file, 100);
    EXPECT_TRUE(mentions(message_of<IoError>([&] { store_checkpoint(folder / "new", checkpoint_model(), 3); }),
                         {file, "No space left"}));
    EXPECT_EQ(entries_of(folder / "new"), 0U);
  }
  store_checkpoint(folder / "new", checkpoint_model(), 3);
}

}  // namespace
}  // namespace matrixfsdp
