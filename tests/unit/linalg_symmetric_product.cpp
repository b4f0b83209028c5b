#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "support/matrices.hpp"

namespace matrixfsdp {
namespace {

using reference::Dense;
using test::Strided;

/// A symmetric matrix of small integers and its square: they commute, and all products stay exact in float32.
std::pair<Dense, Dense> commuting(std::int64_t extent) {
  Dense a(extent, extent);
  for (std::int64_t i = 0; i < extent; ++i) {
    for (std::int64_t j = 0; j <= i; ++j)
      a(i, j) = a(j, i) = static_cast<double>((i * 5 + j * 3) % 3 - 1);
  }
  return {a, reference::multiply(a, a)};
}

template <class T>
class LinalgSymmetricProduct : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinalgSymmetricProduct, Types);

// CASES 20: odd sizes, and sizes around the smallest square that is halved.
TYPED_TEST(LinalgSymmetricProduct, EqualsPlainLoops) {
  for (const std::int64_t extent : {0, 1, 2, 33, 95, 96, 97, 98, 193, 200}) {
    const auto [a, b] = commuting(extent);
    for (const std::int64_t gap : {0, 3}) {
      const Strided<TypeParam> left(a, gap);
      const Strided<TypeParam> right(b, gap + 1);
      const Strided<TypeParam> result(extent, extent, gap + 2);
      linalg::symmetric_product<TypeParam>(left.view(), right.view(), result.view());
      EXPECT_EQ(result.dense().values, reference::multiply(a, b).values) << extent;
      EXPECT_TRUE(result.gaps_are_untouched());
    }
  }
}

// Whatever is rounded, the mirrored triangle has the same bits.
TYPED_TEST(LinalgSymmetricProduct, ResultIsExactlySymmetric) {
  const Dense values = reference::gaussian(150, 150, 5);
  const Strided<TypeParam> a(reference::multiply(values, reference::transpose(values)));
  const Strided<TypeParam> b(reference::multiply(a.dense(), a.dense()));
  const Strided<TypeParam> result(150, 150);
  linalg::symmetric_product<TypeParam>(a.view(), b.view(), result.view());
  EXPECT_EQ(result.bits(), Strided<TypeParam>(reference::transpose(result.dense())).bits());
  EXPECT_LT(reference::relative_distance(result.dense(), reference::multiply(a.dense(), b.dense())), 1e-5);
}

TYPED_TEST(LinalgSymmetricProduct, ExtentsThatDoNotFitThrow) {
  const Strided<TypeParam> three(3, 3);
  const Strided<TypeParam> four(4, 4);
  const Strided<TypeParam> oblong(3, 4);
  EXPECT_THROW((linalg::symmetric_product<TypeParam>(three.view(), three.view(), four.view())), ContractError);
  EXPECT_THROW((linalg::symmetric_product<TypeParam>(four.view(), three.view(), three.view())), ContractError);
  EXPECT_THROW((linalg::symmetric_product<TypeParam>(three.view(), oblong.view(), three.view())), ContractError);
}

// By hand: 97 is 48 and 49 on the diagonal, 49 x 48 below.
TEST(LinalgSymmetricProductFlops, OfKnownExtents) {
  EXPECT_EQ(linalg::symmetric_product_flops(0), 0);
  EXPECT_EQ(linalg::symmetric_product_flops(96), 2 * 96 * 96 * 96);
  EXPECT_EQ(linalg::symmetric_product_flops(97), 2 * 97 * (48 * 48 + 49 * 48 + 49 * 49));
  EXPECT_EQ(linalg::symmetric_product_flops(192), 2 * 192 * 3 * 96 * 96);
}

}  // namespace
}  // namespace matrixfsdp
