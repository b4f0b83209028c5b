#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_data.hpp>

#include "support/temporary_folder.hpp"
#include "support/token_shards.hpp"

namespace matrixfsdp::io {
namespace {

using matrixfsdp::testing::mentions;
using matrixfsdp::testing::message_of;
using matrixfsdp::testing::TemporaryFolder;
using matrixfsdp::testing::token_shard;

std::vector<std::int32_t> tokens_of(const TokenData& data) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.size()));
  data.read(0, tokens);
  return tokens;
}

std::string error_of(const std::vector<std::string>& paths) {
  return message_of<InputError>([&] { TokenData data(paths); });
}

TEST(TokenData, TextIsItsBytesInTheGivenOrder) {
  const TemporaryFolder folder;
  const TokenData data({folder.write("b.txt", "xyz"), folder.write("a", std::string("\xff\0A", 3))});
  EXPECT_EQ(data.format(), TokenFormat::text);
  EXPECT_EQ(tokens_of(data), (std::vector<std::int32_t>{'x', 'y', 'z', 255, 0, 'A'}));
  EXPECT_EQ(data.locate(3), "data file '" + folder / "a" + "', token 0");
}

TEST(TokenData, ReadsAcrossFiles) {
  const TemporaryFolder folder;
  const TokenData data({folder.write("1", "ab"), folder.write("2", "c"), folder.write("3", "defg")});
  std::vector<std::int32_t> tokens(4);
  data.read(1, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{'b', 'c', 'd', 'e'}));
  EXPECT_THROW(data.read(4, tokens), ContractError);
  EXPECT_THROW(data.read(-1, tokens), ContractError);
}

TEST(TokenData, ShardsOfBothWidths) {
  const TemporaryFolder folder;
  const TokenData narrow({folder.write("n.bin", token_shard({0, 1, 50256, 65535}))});
  EXPECT_EQ(narrow.format(), TokenFormat::shard_uint16);
  EXPECT_EQ(tokens_of(narrow), (std::vector<std::int32_t>{0, 1, 50256, 65535}));
  const TokenData wide({folder.write("w.bin", token_shard({128255, 7}, 20240801, 7, 4))});
  EXPECT_EQ(wide.format(), TokenFormat::shard_uint32);
  EXPECT_EQ(tokens_of(wide), (std::vector<std::int32_t>{128255, 7}));
}

TEST(TokenData, FolderIsItsFilesByName) {
  const TemporaryFolder folder;
  folder.write("data/b", "2");
  folder.write("data/a", "1");
  folder.write("data/.hidden", "no");
  folder.write("data/inner/c", "no");
  EXPECT_EQ(tokens_of(TokenData({folder / "data"})), (std::vector<std::int32_t>{'1', '2'}));
  folder.write("none/.hidden", "no");
  EXPECT_TRUE(mentions(error_of({folder / "none"}), {folder / "none", "no files"}));
}

TEST(TokenData, NamesWhatIsWrongWithAPath) {
  const TemporaryFolder folder;
  EXPECT_TRUE(mentions(error_of({}), {"no files"}));
  EXPECT_TRUE(mentions(error_of({folder / "absent"}), {folder / "absent", "No such file"}));
  EXPECT_TRUE(mentions(error_of({folder.write("empty", "")}), {"empty'", "is empty"}));
  const std::string file = folder.write("file", "x");
  EXPECT_TRUE(mentions(error_of({file + "/below"}), {file + "/below", "Not a directory"}));
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(mentions(error_of({pipe}), {pipe, "not a regular file"}));
}

TEST(TokenData, NamesWhatIsWrongWithAShard) {
  const TemporaryFolder folder;
  EXPECT_TRUE(mentions(error_of({folder.write("magic.bin", token_shard({1}, 99))}), {"magic.bin", "99", "20240520"}));
  EXPECT_TRUE(mentions(error_of({folder.write("version.bin", token_shard({1}, 20240520, 2))}),
                       {"version.bin", "version 2", "expected version 1"}));
  EXPECT_TRUE(mentions(error_of({folder.write("head.bin", "short")}), {"head.bin", "5 bytes", "1024"}));
  EXPECT_TRUE(mentions(error_of({folder.write("none.bin", token_shard({}))}), {"none.bin", "0 tokens"}));
  const std::string shard = token_shard({1, 2, 3});
  EXPECT_TRUE(mentions(error_of({folder.write("cut.bin", shard.substr(0, shard.size() - 2))}),
                       {"cut.bin", "1028 bytes", "expected 1030"}));
  EXPECT_TRUE(mentions(error_of({folder.write("odd.bin", shard + "x")}), {"odd.bin", "1031", "expected 1030"}));
}

TEST(TokenData, FormatsDoNotMix) {
  const TemporaryFolder folder;
  const std::string text = folder.write("t.txt", "abc");
  const std::string shard = folder.write("s.bin", token_shard({1}));
  EXPECT_TRUE(mentions(error_of({text, shard}), {text, shard, "text", "shard", "one format"}));
}

TEST(TokenData, HoldsOutTheEnd) {
  const TemporaryFolder folder;
  const TokenData data({folder.write("t", std::string(100, 'x'))});
  const TokenSplit split = hold_out(data, 0.1, 4);
  EXPECT_EQ(split.training.interval(), (Interval{0, 90}));
  EXPECT_EQ(split.validation.interval(), (Interval{90, 100}));
  EXPECT_EQ(hold_out(data, 0.1, 20).validation.interval(), (Interval{79, 100}));  // one sequence at least
  EXPECT_TRUE(mentions(message_of<InputError>([&] { hold_out(data, 0.1, 50); }), {"100 tokens", "51"}));
  EXPECT_TRUE(mentions(message_of<InputError>([&] { hold_out(data, 0.9, 10); }), {"leaves 10", "11"}));
  for (const double fraction : {0.0, 1.0, -0.5, std::nan("")})
    EXPECT_THROW(hold_out(data, fraction, 4), InputError);
}

TEST(TokenData, UnigramEntropyIsExact) {
  const TemporaryFolder folder;
  const TokenData data({folder.write("t", "aaaabbcd")});  // 1/2, 1/4, 1/8, 1/8: 1.75 bits
  EXPECT_NEAR(unigram_entropy(data.all(), 256), 1.75 * std::log(2.0), 1e-15);
  EXPECT_EQ(unigram_entropy(TokenRange(data, {0, 4}), 256), 0.0);
  EXPECT_EQ(unigram_entropy(TokenRange(), 256), 0.0);
  EXPECT_TRUE(mentions(message_of<InputError>([&] { unigram_entropy(data.all(), 'd'); }),
                       {folder / "t", "token 7", "id 100", "vocabulary of 100"}));
}

}  // namespace
}  // namespace matrixfsdp::io
