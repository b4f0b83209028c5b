#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp {
namespace {

constexpr std::int64_t one = 1;

TEST(Shapes, element_counts) {
  EXPECT_EQ(element_count(Shape{}), 1);
  EXPECT_EQ(element_count(Shape{7}), 7);
  EXPECT_EQ(element_count(Shape{768, 3072}), 2359296);
  EXPECT_EQ(element_count(Shape{0, 8}), 0);  // CASES 7
  EXPECT_EQ(element_count(Shape{8, 0}), 0);
  EXPECT_EQ(element_count(Shape{3, 4, 5, 6}), 360);
}

// CASES 43: counts beyond 2^31 are ordinary, beyond 2^62 an error instead of a wrapped number.
TEST(Shapes, counts_are_64_bit_and_overflow_is_told) {
  EXPECT_EQ(element_count(Shape{one << 20, one << 20}), one << 40);
  EXPECT_EQ(element_count(Shape{one << 31, one << 31}), one << 62);
  EXPECT_EQ(element_count(Shape{one << 62}), one << 62);
  EXPECT_EQ(element_count(Shape{0, one << 62, one << 62}), 0);
  EXPECT_THROW(element_count(Shape{(one << 31) + 1, one << 31}), ContractError);
  EXPECT_THROW(element_count(Shape{one << 32, one << 32}), ContractError);  // 2^64 wraps to 0
  EXPECT_THROW(element_count(Shape{one << 21, one << 21, one << 21}), ContractError);
  EXPECT_THROW(element_count(Shape{INT64_MAX}), ContractError);
}

TEST(Shapes, negative_extents_are_refused_with_the_shape) {
  for (const Shape& shape : {Shape{-1}, Shape{4, -2}, Shape{-3, -3}, Shape{0, -1}}) {
    try {
      element_count(shape);
      FAIL() << "accepted " << to_string(shape);
    } catch (const ContractError& error) {
      EXPECT_NE(std::string(error.what()).find(to_string(shape)), std::string::npos) << error.what();
    }
  }
}

TEST(Shapes, text) {
  EXPECT_EQ(to_string(Shape{}), "()");
  EXPECT_EQ(to_string(Shape{5}), "(5)");
  EXPECT_EQ(to_string(Shape{768, 3072}), "(768, 3072)");
}

TEST(Intervals, size_and_common_part) {
  EXPECT_EQ((Interval{3, 10}).size(), 7);
  EXPECT_TRUE((Interval{4, 4}).empty());
  EXPECT_FALSE((Interval{4, 5}).empty());
  EXPECT_EQ(intersect({0, 10}, {5, 15}), (Interval{5, 10}));
  EXPECT_EQ(intersect({5, 15}, {0, 10}), (Interval{5, 10}));
  EXPECT_EQ(intersect({0, 10}, {2, 3}), (Interval{2, 3}));
  EXPECT_EQ(intersect({0, 5}, {5, 10}), Interval{});
  EXPECT_EQ(intersect({0, 2}, {7, 9}), Interval{});
}

}  // namespace
}  // namespace matrixfsdp
