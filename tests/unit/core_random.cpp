#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/random.hpp>

namespace matrixfsdp {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of philox4x32-10 in Random123 (kat_vectors).
TEST(Philox, published_known_answers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The address is part of checkpoints' meaning: the same weights must come out of the same seed for ever.
TEST(CounterRandomNumbers, address_is_index_then_stream_under_the_seed) {
  const CounterRandom random(0x299f31d0a4093822ULL, 0x0370734413198a2eULL);
  EXPECT_EQ(random.words(0x85a308d3243f6a88ULL), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  const CounterRandom zero(0, 0);
  EXPECT_EQ(zero.uniform(0), static_cast<double>(0x6627e8d5e169c58dULL >> 11) * std::ldexp(1.0, -53));
}

// Published vectors of 64-bit FNV-1a (Fowler, Noll, Vo).
TEST(Streams, names_hash_as_published) {
  EXPECT_EQ(stream_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(stream_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(stream_of("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(stream_of("\xff"), 0xaf64724c8602eb6eULL) << "bytes are unsigned";
}

TEST(CounterRandomNumbers, uniform_fills_the_unit_interval) {
  const CounterRandom random(7, stream_of("uniform"));
  constexpr int bins = 64;
  constexpr int draws = 640000;
  std::array<int, bins> counts{};
  for (int i = 0; i < draws; ++i) {
    const double value = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++counts[static_cast<std::size_t>(value * bins)];
  }
  double chi_square = 0;
  for (const int count : counts)
    chi_square += (count - draws / bins) * static_cast<double>(count - draws / bins) / (draws / bins);
  EXPECT_LT(chi_square, 120.0);  // 63 degrees of freedom: mean 63, exceeded by chance once in 50,000
  EXPECT_GT(chi_square, 25.0);   // and not suspiciously even
}

TEST(CounterRandomNumbers, below_is_in_range_and_even) {
  const CounterRandom random(7, stream_of("below"));
  std::array<int, 7> counts{};
  for (std::uint64_t i = 0; i < 70000; ++i)
    ++counts.at(random.below(i, 7));
  for (const int count : counts)
    EXPECT_NEAR(count, 10000, 500);
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(random.below(i, 1), 0U);
    EXPECT_LT(random.below(i, (1ULL << 63) + 1), (1ULL << 63) + 1);
  }
}

TEST(CounterRandomNumbers, normal_has_the_moments_of_a_normal) {
  const CounterRandom random(1, stream_of("block.0.attention.qkv"));
  constexpr int draws = 1000000;
  double sums[4] = {0, 0, 0, 0};
  double neighbours = 0;
  double previous = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    sums[0] += x;
    sums[1] += x * x;
    sums[2] += x * x * x;
    sums[3] += x * x * x * x;
    neighbours += x * previous;
    previous = x;
  }
  // Standard errors are 1e-3 times 1, sqrt 2, sqrt 15, sqrt 96 and 1: five of them.
  EXPECT_NEAR(sums[0] / draws, 0.0, 5e-3);
  EXPECT_NEAR(sums[1] / draws, 1.0, 7.1e-3);
  EXPECT_NEAR(sums[2] / draws, 0.0, 2e-2);
  EXPECT_NEAR(sums[3] / draws, 3.0, 4.9e-2);
  EXPECT_NEAR(neighbours / draws, 0.0, 5e-3);
}

TEST(CounterRandomNumbers, seeds_and_streams_are_independent) {
  const std::vector<CounterRandom> sources{{1, 1}, {1, 2}, {2, 1}, {1ULL << 32, 1}, {1, 1ULL << 32}};
  for (std::size_t a = 0; a < sources.size(); ++a) {
    for (std::size_t b = a + 1; b < sources.size(); ++b) {
      double product = 0;
      for (std::uint64_t i = 0; i < 20000; ++i)
        product += sources[a].normal(i) * sources[b].normal(i);
      EXPECT_NEAR(product / 20000, 0.0, 0.04) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp
