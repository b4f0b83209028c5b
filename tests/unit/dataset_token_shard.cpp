#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_shard.hpp>

#include "support/temporary_folder.hpp"
#include "support/token_shards.hpp"

namespace matrixfsdp::io {
namespace {

using testing::message_of;

TEST(DatasetTokenShard, what_is_written_is_what_readers_expect) {
  const testing::TemporaryFolder folder;
  for (const bool wide : {false, true}) {
    const std::string path = folder / (wide ? "wide.bin" : "narrow.bin");
    TokenShardWriter writer(path, wide ? TokenFormat::shard_uint32 : TokenFormat::shard_uint16);
    writer.write(std::vector<std::int32_t>{7, 0});
    writer.write(std::vector<std::int32_t>{});
    writer.write(std::vector<std::int32_t>{65535});
    EXPECT_EQ(writer.size(), 3);
    EXPECT_THROW(TokenData({path}), InputError) << "nobody reads a part";
    writer.publish();
    EXPECT_EQ(testing::read_bytes(path),
              wide ? testing::token_shard({7, 0, 65535}, 20240801, 7, 4) : testing::token_shard({7, 0, 65535}));
    EXPECT_EQ(TokenData({path}).size(), 3);
  }
}

TEST(DatasetTokenShard, what_was_not_published_is_removed) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "tokens.bin";
  {
    TokenShardWriter writer(path, TokenFormat::shard_uint16);
    writer.write(std::vector<std::int32_t>{1});
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(DatasetTokenShard, refuses_what_no_shard_can_hold) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(largest_token(TokenFormat::shard_uint16), 65535);
  EXPECT_EQ(largest_token(TokenFormat::shard_uint32), 2147483647);
  EXPECT_THROW(largest_token(TokenFormat::text), ContractError);
  TokenShardWriter writer(folder / "tokens.bin", TokenFormat::shard_uint16);
  EXPECT_THROW(writer.write(std::vector<std::int32_t>{65536}), ContractError);
  EXPECT_THROW(writer.write(std::vector<std::int32_t>{-1}), ContractError);
  EXPECT_THROW(writer.publish(), ContractError) << "a shard without tokens";
  for (const std::string& name : {std::string("tokens"), std::string("tokens.bin"), std::string("none/tokens.bin")}) {
    const std::string path = folder / name;
    EXPECT_TRUE(
        testing::mentions(message_of<InputError>([&] { TokenShardWriter(path, TokenFormat::shard_uint16); }), {path}))
        << path;
  }
}

}  // namespace
}  // namespace matrixfsdp::io
