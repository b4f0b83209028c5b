#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "support/full_disk.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp::io {
namespace {

using matrixfsdp::testing::FullDisk;
using matrixfsdp::testing::mentions;
using matrixfsdp::testing::message_of;
using matrixfsdp::testing::read_bytes;
using matrixfsdp::testing::TemporaryFolder;

/// A file: the length of the header, the header, data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), static_cast<std::int64_t>(file.size()), "f");
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  std::vector<float> values(700000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) - 3.5F;
  const std::vector<std::uint16_t> narrow{0x3f80, 0x7fc0, 0x0001};
  {
    SafetensorsWriter writer(path, {{"large", "F32", {700, 1000}}, {"none", "F32", {0, 4}}, {"narrow", "BF16", {3}}},
                             {{"format", "pt"}, {"quote", "\"\\\n"}});
    const auto bytes = std::as_bytes(std::span(values));
    writer.append(bytes.first(1001));
    writer.append(bytes.subspan(1001));
    writer.append(std::as_bytes(std::span(narrow)));
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.close();
  }
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.header().data_offset % 8, 0);
  EXPECT_EQ(reader.header().metadata.at("quote"), "\"\\\n");
  ASSERT_EQ(reader.header().tensors.size(), 3U);
  EXPECT_EQ(reader.header().tensors[0].name, "large");
  EXPECT_EQ(reader.header().tensors[0].shape, (Shape{700, 1000}));
  EXPECT_EQ(reader.header().tensors[2].dtype, "BF16");
  std::vector<float> back(values.size());
  reader.read(reader.header().tensors[0], [&](std::int64_t first, std::span<const std::byte> block) {
    EXPECT_LE(block.size(), std::size_t{1} << 20);
    std::memcpy(back.data() + first, block.data(), block.size());
  });
  EXPECT_EQ(back, values);
  EXPECT_THROW(SafetensorsWriter(path, {}, {}), InputError) << "nothing is overwritten";
}

TEST(Safetensors, AnIncompleteFileDoesNotAppear) {
  const TemporaryFolder folder;
  const std::vector<float> values(1000, 1.0F);
  {
    SafetensorsWriter writer(folder / "a", {{"t", "F32", {1000}}}, {});
    writer.append(std::as_bytes(std::span(values)).first(3999));
    EXPECT_TRUE(mentions(message_of<ContractError>([&] { writer.close(); }), {"1 bytes"}));
  }
  {
    const FullDisk disk(folder.path(), 1024);
    EXPECT_TRUE(mentions(message_of<IoError>([&] {
                           SafetensorsWriter writer(folder / "a", {{"t", "F32", {1000}}}, {});
                           writer.append(std::as_bytes(std::span(values)));
                         }),
                         {"a.tmp", "No space left"}));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// As Hugging Face's writer writes it: sorted names, padded with spaces.
TEST(Safetensors, FilesOfOthersAreRead) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F16","shape":[2,2],"data_offsets":[8,16]}}   )";
  const SafetensorsHeader read = parse(file_of(header, std::string(16, 'x')));
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.tensors[0].name, "b");
  EXPECT_EQ(read.tensors[0].shape, Shape{});
  EXPECT_EQ(read.tensors[1].bytes, (Interval{8, 16}));
  EXPECT_TRUE(parse(file_of("{}", "")).tensors.empty());
}

struct Bad {
  std::string file;
  std::vector<std::string_view> said;
};

TEST(Safetensors, WhatIsWrongIsNamed) {
  const auto tensor = [](const std::string& fields) { return "{\"t\":{" + fields + "}}"; };
  const std::string data(8, 'x');
  const std::vector<Bad> cases{
      {"", {"0 bytes"}},
      {"1234567", {"7 bytes", "at least 8"}},
      {file_of("{}", "x"), {"end at byte 0", "expected 1"}},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), {"header of 18446744073709551615", "at most 2"}},
      {std::string("\x03\0\0\0\0\0\0\0{}", 10), {"header of 3", "at most 2"}},
      {file_of(" {}", ""), {"does not begin"}},
      {file_of("[]", ""), {"does not begin"}},
      {file_of("{", ""), {"not JSON"}},
      {file_of("{}x", ""), {"not JSON"}},
      {file_of("{\"a\":" + std::string(5000, '['), ""), {"nested"}},
      {file_of(R"({"t":1})", data), {"t", "JSON object"}},
      {file_of(tensor(R"("shape":[2],"data_offsets":[0,8])"), data), {"t.dtype", "missing"}},
      {file_of(tensor(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), data), {"t.dtype", "F33"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), data), {"t.x", "unknown"}},
      {file_of(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), data), {"t.shape[0]"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), data), {"t.shape[0]"}},
      {file_of(tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"), data),
       {"t.shape", "2^62"}},
      {file_of(tensor(R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8])"), data),
       {"t.data_offsets"}},
      {file_of(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), data), {"(0, 8)", "3 elements of F32"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), data), {"(8, 0)"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), data), {"t.data_offsets"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), data), {"'t'", "byte 4", "expected 0"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), data + "y"), {"byte 8", "expected 9"}},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), "xxxx"), {"byte 8", "expected 4"}},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"u":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})",
           data),
       {"'u'", "byte 2", "expected 4"}},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"u":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
           data),
       {"'u'", "byte 4", "expected 2"}},
      {file_of(
           R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
           data),
       {"t", "twice"}},
      {file_of(R"({"__metadata__":{"a":1}})", ""), {"__metadata__.a", "text"}},
      {file_of(R"({"__metadata__":[]})", ""), {"__metadata__", "JSON object"}},
      {file_of("{\"\xff\":1}", ""), {"not JSON", "UTF-8"}},
  };
  for (const Bad& bad : cases) {
    const std::string message = message_of<IoError>([&] { parse(bad.file); });
    for (const std::string_view word : bad.said)
      EXPECT_TRUE(mentions(message, {"'f'", word})) << bad.file;
  }
}

}  // namespace
}  // namespace matrixfsdp::io
