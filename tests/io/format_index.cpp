#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/index_file.hpp>

#include "support/stored_checkpoint.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::mentions;
using testing::message_of;
using testing::store_checkpoint;
using testing::stored_value;
using testing::TemporaryFolder;

std::vector<float> through_index(const std::string& step, const std::string& dataset) {
  const hid_t file = H5Fopen((step + "/checkpoint.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  EXPECT_GE(data, 0) << dataset;
  const hid_t space = H5Dget_space(data);
  std::vector<float> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(file);
  return values;
}

// Other programs see one tree, wherever the folder is.
TEST(IndexFile, LeadsToEveryDatasetAlsoWhenTheFolderMoves) {
  const TemporaryFolder folder;
  store_checkpoint(folder / "a", checkpoint_model(), 3);
  std::filesystem::rename(folder / "a", folder / "b");
  const std::string step = folder / "b/step_00000012";
  const io::Manifest manifest = io::read_manifest(step);
  bool cut = false;
  for (const io::StoredSegment& segment : manifest.segments) {
    const auto values = through_index(step, segment.dataset);
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), segment.elements.size()) << segment.dataset;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t element = segment.elements.begin + static_cast<std::int64_t>(i);
      ASSERT_EQ(values[i], stored_value(1, segment.parameter, segment.what, element)) << segment.dataset;
    }
    cut = cut || segment.dataset.find("/segment.1") != std::string::npos;
  }
  EXPECT_TRUE(cut) << "one tensor at least is in segments";
}

TEST(IndexFile, WrongLinksAreFound) {
  const TemporaryFolder folder;
  const std::string step = store_checkpoint(folder / "a", checkpoint_model(), 3);
  io::Manifest manifest = io::read_manifest(step);
  io::verify_index_file(step, manifest);
  for (io::StoredSegment& segment : manifest.segments) {
    if (segment.parameter == "block.0.up" && segment.what == "momentum") segment.file = "rank_00009.h5";
  }
  EXPECT_TRUE(mentions(message_of<IoError>([&] { io::verify_index_file(step, manifest); }),
                       {"checkpoint.h5", "/optimizer/block.0.up/momentum", "rank_00009.h5"}));
  manifest = io::read_manifest(step);
  manifest.segments.front().dataset = "/parameters/absent";
  EXPECT_TRUE(mentions(message_of<IoError>([&] { io::verify_index_file(step, manifest); }), {"/parameters/absent"}));
  EXPECT_THROW(io::write_index_file(step, manifest), IoError) << "one is there";
}

TEST(IndexFile, EqualCheckpointsHaveEqualFiles) {
  const TemporaryFolder folder;
  const std::string a = store_checkpoint(folder / "a", checkpoint_model(), 2);
  const std::string b = store_checkpoint(folder / "b", checkpoint_model(), 2);
  for (const auto& entry : std::filesystem::directory_iterator(a)) {
    const std::string name = "/" + entry.path().filename().string();
    EXPECT_EQ(testing::read_bytes(a + name), testing::read_bytes(b + name)) << name;
  }
}

}  // namespace
}  // namespace matrixfsdp
