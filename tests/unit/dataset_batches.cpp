#include <array>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/batches.hpp>

#include "support/temporary_folder.hpp"
#include "support/token_shards.hpp"

namespace matrixfsdp::io {
namespace {

using matrixfsdp::testing::mentions;
using matrixfsdp::testing::message_of;
using matrixfsdp::testing::TemporaryFolder;
using matrixfsdp::testing::token_shard;

TokenData counting_shard(const TemporaryFolder& folder, std::uint32_t count) {
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < count; ++i)
    tokens.push_back(i);
  return TokenData({folder.write("counting.bin", token_shard(tokens))});
}

TEST(Batches, SequenceIsTheWindowAtItsOffset) {
  const TemporaryFolder folder;
  const TokenData data = counting_shard(folder, 1000);
  const Batches batches(TokenRange(data, {100, 900}), 16, 1000, 7);
  for (std::int64_t step = 0; step < 20; ++step) {
    const std::int64_t offset = batches.offset(step, 3);
    const auto sequence = batches.sequence(step, 3);
    ASSERT_EQ(sequence.size(), 17U);
    for (std::size_t i = 0; i < sequence.size(); ++i)
      EXPECT_EQ(sequence[i], 100 + offset + static_cast<std::int64_t>(i));
    EXPECT_GE(sequence.front(), 100);
    EXPECT_LT(sequence.back(), 900);
  }
}

TEST(Batches, ArePureInSeedStepAndIndex) {
  const TemporaryFolder folder;
  const TokenData data = counting_shard(folder, 60000);
  const Batches one(data.all(), 16, 65536, 1);
  const Batches same(data.all(), 16, 65536, 1);
  const Batches other(data.all(), 16, 65536, 2);
  std::set<std::int64_t> offsets;
  int differ = 0;
  for (std::int64_t step = 0; step < 8; ++step) {
    for (std::int64_t index = 8; index-- > 0;) {
      EXPECT_EQ(one.offset(step, index), same.offset(step, index));
      differ += static_cast<int>(one.offset(step, index) != other.offset(step, index));
      offsets.insert(one.offset(step, index));
    }
  }
  EXPECT_GT(differ, 60);
  EXPECT_GT(offsets.size(), 60U);
  // The definition, by hand: a checkpoint of today must find the same data tomorrow.
  const CounterRandom random(1, stream_of("batch"));
  EXPECT_EQ(one.offset(5, 3), static_cast<std::int64_t>(random.below((5ULL << 32) + 3, 60000 - 16)));
}

TEST(Batches, EveryStartIsEquallyLikely) {
  const TemporaryFolder folder;
  const TokenData data = counting_shard(folder, 14);  // starts 0 .. 9 for sequences of 4
  const Batches batches(data.all(), 4, 100, 3);
  std::array<int, 10> hits{};
  for (std::int64_t index = 0; index < 10000; ++index)
    ++hits.at(static_cast<std::size_t>(batches.offset(0, index)));
  for (const int count : hits) {  // 1000 expected, standard deviation 30
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1150);
  }
}

TEST(Batches, OneSequenceOfData) {
  const TemporaryFolder folder;
  const TokenData data = counting_shard(folder, 5);
  EXPECT_EQ(Batches(data.all(), 4, 100, 3).sequence(9, 9), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(mentions(message_of<InputError>([&] { Batches(data.all(), 5, 100, 3); }), {"5 tokens", "6"}));
}

TEST(Batches, TokenOutsideTheVocabularyIsNamed) {
  const TemporaryFolder folder;
  const TokenData data({folder.write("a.bin", token_shard({1, 2, 3})), folder.write("b.bin", token_shard({4, 50, 6}))});
  const Batches batches(data.all(), 5, 50, 3);
  EXPECT_TRUE(mentions(message_of<InputError>([&] { (void)batches.sequence(0, 0); }),
                       {folder / "b.bin", "token 1", "id 50", "vocabulary of 50"}));
  const TokenData wide({folder.write("w.bin", token_shard({0xffffffffU, 1}, 20240801, 7, 4))});
  EXPECT_TRUE(mentions(message_of<InputError>([&] { (void)EvenWindows(wide.all(), 1, 50).sequence(0, 1); }),
                       {"w.bin", "token 0", "id 4294967295"}));
}

TEST(Batches, RefusesWhatTheCounterCannotHold) {
  const TemporaryFolder folder;
  const TokenData data = counting_shard(folder, 100);
  const Batches batches(data.all(), 4, 100, 3);
  EXPECT_THROW((void)batches.offset(-1, 0), ContractError);
  EXPECT_THROW((void)batches.offset(0, std::int64_t{1} << 32), ContractError);
  EXPECT_THROW(Batches(data.all(), 0, 100, 3), ContractError);
}

TEST(EvenWindows, AreEvenAndInside) {
  const TemporaryFolder folder;
  const TokenData data = counting_shard(folder, 104);  // starts 0 .. 99 for sequences of 4
  const EvenWindows windows(data.all(), 4, 200);
  EXPECT_EQ(windows.offset(0, 4), 0);
  EXPECT_EQ(windows.offset(1, 4), 25);
  EXPECT_EQ(windows.offset(3, 4), 75);
  EXPECT_EQ(windows.offset(2, 3), 66);
  EXPECT_EQ(windows.offset(299, 300), 99);  // more than fit: they overlap
  EXPECT_EQ(windows.sequence(1, 4), (std::vector<std::int32_t>{25, 26, 27, 28, 29}));
  EXPECT_THROW((void)windows.offset(4, 4), ContractError);
}

}  // namespace
}  // namespace matrixfsdp::io
