#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "support/full_disk.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp::io {
namespace {

using matrixfsdp::testing::FullDisk;
using matrixfsdp::testing::mentions;
using matrixfsdp::testing::message_of;
using matrixfsdp::testing::read_bytes;
using matrixfsdp::testing::TemporaryFolder;

std::vector<float> counting(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.5F);
  return values;
}

std::vector<float> read_floats(const TensorFileReader& reader, const std::string& dataset, std::int64_t block_bytes) {
  std::vector<float> values;
  reader.read(
      dataset,
      [&](std::int64_t first, std::span<const std::byte> block) {
        EXPECT_EQ(first, static_cast<std::int64_t>(values.size()));
        EXPECT_LE(static_cast<std::int64_t>(block.size()), std::max<std::int64_t>(block_bytes, 4));
        const std::size_t before = values.size();
        values.resize(before + block.size() / sizeof(float));
        std::memcpy(values.data() + before, block.data(), block.size());
      },
      block_bytes);
  return values;
}

TEST(TensorFile, WholeTensorsComeBackInBlocksOfAnySize) {
  const TemporaryFolder folder;
  const std::vector<Shape> shapes{{7}, {5, 3}, {2, 3, 5}, {3, 1, 1, 4}, {1, 64}, {64, 1}, {}};
  {
    TensorFileWriter writer(folder / "f.h5");
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::int64_t count = element_count(shapes[i]);
      const auto values = counting(count);
      EXPECT_EQ(writer.write(dataset_path(std::to_string(i), "weight", -1), {DType::float32, shapes[i], {0, count}},
                             std::as_bytes(std::span(values))),
                checksum_of(std::as_bytes(std::span(values))));
    }
    writer.close();
  }
  const TensorFileReader reader(folder / "f.h5");
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string dataset = dataset_path(std::to_string(i), "weight", -1);
    EXPECT_EQ(reader.info(dataset).global_shape, shapes[i]);
    EXPECT_TRUE(reader.info(dataset).whole());
    for (const std::int64_t block : {1, 4, 8, 12, 20, 24, 60, 64, 1 << 20})
      EXPECT_EQ(read_floats(reader, dataset, block), counting(element_count(shapes[i]))) << i << ' ' << block;
  }
}

// A file that no reader takes is not written.
TEST(TensorFile, ElementsOutsideTheTensorAreRefused) {
  const TemporaryFolder folder;
  const auto values = counting(6);
  TensorFileWriter writer(folder / "f.h5");
  for (const Interval elements : {Interval{7, 13}, Interval{-1, 5}, Interval{5, 3}, Interval{13, 13}}) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, elements.size()));
    const std::string message = message_of<ContractError>([&] {
      writer.write("/p", {DType::float32, {3, 4}, elements}, std::as_bytes(std::span(values).first(count)));
    });
    EXPECT_TRUE(mentions(message, {"/p", std::to_string(elements.begin), std::to_string(elements.end), "(3, 4)"}));
  }
  writer.write("/p", {DType::float32, {3, 4}, {6, 12}}, std::as_bytes(std::span(values)));
  writer.close();
}

TEST(TensorFile, SegmentKnowsItsPlace) {
  const TemporaryFolder folder;
  const std::string dataset = dataset_path("p", "momentum", 2);
  EXPECT_EQ(dataset, "/optimizer/p/momentum/segment.2");
  const auto values = counting(40);
  TensorFileWriter writer(folder / "f.h5");
  writer.write(dataset, {DType::float32, {10, 12}, {30, 70}}, std::as_bytes(std::span(values)));
  writer.close();
  const TensorFileReader reader(folder / "f.h5");
  const TensorInfo info = reader.info(dataset);
  EXPECT_EQ(info.global_shape, (Shape{10, 12}));
  EXPECT_EQ(info.elements, (Interval{30, 70}));
  EXPECT_EQ(info.dtype, DType::float32);
  EXPECT_EQ(read_floats(reader, dataset, 28), values);
}

TEST(TensorFile, NoElementsCase7) {
  const TemporaryFolder folder;
  TensorFileWriter writer(folder / "f.h5");
  writer.write("/parameters/p", {DType::float32, {0, 8}, {0, 0}}, {});
  writer.close();
  const TensorFileReader reader(folder / "f.h5");
  EXPECT_EQ(reader.info("/parameters/p").global_shape, (Shape{0, 8}));
  EXPECT_TRUE(read_floats(reader, "/parameters/p", 64).empty());
}

// CASES 63: bits come back, and other programs see numbers.
TEST(TensorFile, Bfloat16IsAFloatOfSixteenBits) {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> bits{0x3f80, 0x3f81, 0x7fc0, 0xff80, 0x0001};
  TensorFileWriter writer(folder / "f.h5");
  writer.write("/parameters/p", {DType::bfloat16, {5}, {0, 5}}, std::as_bytes(std::span(bits)));
  writer.close();

  std::vector<std::uint16_t> back;
  {
    const TensorFileReader reader(folder / "f.h5");
    EXPECT_EQ(reader.info("/parameters/p").dtype, DType::bfloat16);
    reader.read("/parameters/p", [&](std::int64_t, std::span<const std::byte> block) {
      back.resize(block.size() / 2);
      std::memcpy(back.data(), block.data(), block.size());
    });
  }
  EXPECT_EQ(back, bits);

  const hid_t file = H5Fopen((folder / "f.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "/parameters/p", H5P_DEFAULT);
  std::vector<double> numbers(5);
  ASSERT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
  EXPECT_EQ(numbers[0], 1.0);
  EXPECT_EQ(numbers[1], 1.0078125);
  EXPECT_TRUE(std::isnan(numbers[2]));
  EXPECT_EQ(numbers[3], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(numbers[4], 0x1p-133);
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST(TensorFile, EqualTensorsMakeEqualFiles) {
  const TemporaryFolder folder;
  const auto values = counting(100);
  for (const char* name : {"a.h5", "b.h5"}) {
    TensorFileWriter writer(folder / name);
    writer.write("/parameters/p", {DType::float32, {100}, {0, 100}}, std::as_bytes(std::span(values)));
    writer.close();
  }
  EXPECT_EQ(read_bytes(folder / "a.h5"), read_bytes(folder / "b.h5"));
}

// CASES 62: HDF5 reads a flipped byte in silence.
TEST(TensorFile, EveryFlippedByteOfDataIsFound) {
  const TemporaryFolder folder;
  const auto values = counting(25);
  TensorFileWriter writer(folder / "f.h5");
  writer.write("/parameters/p", {DType::float32, {25}, {0, 25}}, std::as_bytes(std::span(values)));
  writer.close();
  const std::string good = read_bytes(folder / "f.h5");
  const std::size_t data = good.find(std::string(reinterpret_cast<const char*>(values.data()), 100));
  ASSERT_NE(data, std::string::npos);
  for (std::size_t i = 0; i < 100; ++i) {
    std::string bad = good;
    bad[data + i] = static_cast<char>(bad[data + i] ^ 0x10);
    folder.write("bad.h5", bad);
    const TensorFileReader reader(folder / "bad.h5");
    EXPECT_TRUE(mentions(message_of<IoError>([&] { reader.read("/parameters/p", [](std::int64_t, auto) {}); }),
                         {"bad.h5", "/parameters/p", "damaged"}));
  }
}

// CASES 61: after a failed write HDF5 reports success for the rest, and when the file cannot be closed, it crashes at
// exit: that this program ends well is part of the test. Every byte at which the disk may be full.
TEST(TensorFile, FailedWriteIsNotForgotten) {
  const TemporaryFolder folder;
  const auto values = counting(1000);
  const TensorInfo info{DType::float32, {1000}, {0, 1000}};
  const auto write_file = [&](const std::string& name) {
    TensorFileWriter writer(folder / name);
    for (const char* dataset : {"/parameters/p", "/parameters/q", "/optimizer/q/momentum"})
      writer.write(dataset, info, std::as_bytes(std::span(values)));
    writer.close();
  };
  write_file("good.h5");
  const auto size = static_cast<std::int64_t>(read_bytes(folder / "good.h5").size());
  for (std::int64_t room = 0; room < size; room += 509) {
    const std::string name = std::to_string(room) + ".h5";
    const FullDisk disk(folder.path(), room);
    EXPECT_TRUE(mentions(message_of<IoError>([&] { write_file(name); }), {name, "No space left"})) << room;
  }
  write_file("again.h5");
  EXPECT_EQ(read_bytes(folder / "again.h5"), read_bytes(folder / "good.h5"));
}

TEST(TensorFile, NothingFollowsAFailedWrite) {
  const TemporaryFolder folder;
  const auto values = counting(100000);
  const TensorInfo info{DType::float32, {100000}, {0, 100000}};
  TensorFileWriter writer(folder / "f.h5");
  {
    const FullDisk disk(folder.path(), 256 * 1024);
    EXPECT_TRUE(
        mentions(message_of<IoError>([&] { writer.write("/parameters/p", info, std::as_bytes(std::span(values))); }),
                 {"f.h5", "/parameters/p", "written", "No space left"}));
  }
  EXPECT_TRUE(
      mentions(message_of<IoError>([&] { writer.write("/parameters/q", info, std::as_bytes(std::span(values))); }),
               {"f.h5", "earlier write failed"}));
  EXPECT_TRUE(mentions(message_of<IoError>([&] { writer.close(); }), {"f.h5", "earlier write failed"}));
}

TEST(TensorFile, NamesWhatItCannotDo) {
  const TemporaryFolder folder;
  const std::string path = folder.write("there.h5", "not HDF5");
  EXPECT_TRUE(mentions(message_of<IoError>([&] { TensorFileWriter writer(path); }), {path, "File exists"}));
  EXPECT_TRUE(mentions(message_of<IoError>([&] { TensorFileReader reader(path); }), {path, "HDF5"}));
  TensorFileWriter writer(folder / "f.h5");
  EXPECT_THROW(writer.write("/parameters/p", {DType::float32, {4}, {0, 4}}, {}), ContractError);
  writer.close();
  const TensorFileReader reader(folder / "f.h5");
  EXPECT_TRUE(mentions(message_of<IoError>([&] { (void)reader.info("/parameters/p"); }), {"f.h5", "/parameters/p"}));
}

int count_prints(hid_t /*stack*/, void* data) {
  ++*static_cast<int*>(data);
  return 0;
}

TEST(TensorFile, LeavesErrorHandlingToTheCaller) {
  H5E_auto2_t function = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &function, &data);
  int prints = 0;
  H5Eset_auto2(H5E_DEFAULT, reinterpret_cast<H5E_auto2_t>(count_prints), &prints);
  const TemporaryFolder folder;
  EXPECT_THROW(TensorFileReader reader(folder / "absent.h5"), IoError);
  EXPECT_EQ(prints, 0);
  H5Fopen((folder / "absent.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_EQ(prints, 1);
  H5Eset_auto2(H5E_DEFAULT, function, data);
}

}  // namespace
}  // namespace matrixfsdp::io
