#include <algorithm>
#include <filesystem>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "support/temporary_folder.hpp"

namespace matrixfsdp::io {
namespace {

using matrixfsdp::testing::mentions;
using matrixfsdp::testing::message_of;
using matrixfsdp::testing::read_bytes;
using matrixfsdp::testing::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Published values of XXH3_64bits, seed 0, so that a stranger's xxHash agrees.
TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum_text(checksum_of({})), "2d06800538d394c2");
  EXPECT_EQ(checksum_text(checksum_of(bytes_of("abc"))), "78af5f94892f3950");
}

TEST(Checksum, DoesNotDependOnPieces) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text.push_back(static_cast<char>(i * 7));
  Checksum pieces;
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t count = std::min<std::size_t>(first % 301 + 1, text.size() - first);
    pieces.update(bytes_of(text).subspan(first, count));
    first += count;
  }
  EXPECT_EQ(pieces.digest(), checksum_of(bytes_of(text)));
}

TEST(Checksum, TextGoesBothWays) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0xfedcba9876543210}})
    EXPECT_EQ(parse_checksum(checksum_text(value)), value);
  for (const char* text : {"", "0", "fedcba987654321", "fedcba98765432100", "FEDCBA9876543210", "fedcba987654321g"})
    EXPECT_FALSE(parse_checksum(text).has_value()) << text;
}

TEST(Files, VerifyNamesSizeAndContent) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "some bytes");
  const StoredFile file = describe_file(folder.path(), "f");
  EXPECT_EQ(file.bytes, 10);
  EXPECT_EQ(file.checksum, checksum_of(bytes_of("some bytes")));
  verify_file(folder.path(), file);
  folder.write("f", "some byteS");
  EXPECT_TRUE(mentions(message_of<IoError>([&] { verify_file(folder.path(), file); }), {path, "damaged", "checksum"}));
  folder.write("f", "some byte");
  EXPECT_TRUE(mentions(message_of<IoError>([&] { verify_file(folder.path(), file); }), {path, "9 bytes", "10"}));
  std::filesystem::remove(path);
  EXPECT_TRUE(mentions(message_of<IoError>([&] { verify_file(folder.path(), file); }), {path, "No such file"}));
}

TEST(Files, DurableWriteReplacesWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", "old and longer");
  write_text_durably(path, "new");
  EXPECT_EQ(read_text(path), "new");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_TRUE(mentions(message_of<IoError>([&] { write_text_durably(path + "/below", "x"); }), {path + "/below"}));
  EXPECT_TRUE(mentions(message_of<IoError>([&] { read_text(folder.path()); }), {folder.path(), "not a regular file"}));
}

}  // namespace
}  // namespace matrixfsdp::io
