#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "support/matrices.hpp"

namespace matrixfsdp {
namespace {

using linalg::Op;
using reference::Dense;
using test::integers;
using test::Strided;

Dense symmetric(std::int64_t extent, std::uint64_t seed) {
  Dense result = integers(extent, extent, seed);
  for (std::int64_t i = 0; i < extent; ++i) {
    for (std::int64_t j = 0; j < i; ++j)
      result(i, j) = result(j, i);
  }
  return result;
}

template <class T>
class LinalgSyrk : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinalgSyrk, Types);

template <class T>
void compare(Op op, std::int64_t m, std::int64_t k, std::int64_t gap, double alpha, double beta) {
  SCOPED_TRACE(::testing::Message() << "transposed " << (op == Op::transpose) << " m " << m << " k " << k << " gap "
                                    << gap << " alpha " << alpha << " beta " << beta);
  const Dense a = integers(m, k, 1);
  const Dense c = symmetric(m, 2);
  const Strided<T> input(op == Op::none ? a : reference::transpose(a), gap);
  Strided<T> result(c, gap + 1);
  if (beta == 0.0) result.fill(std::numeric_limits<T>::quiet_NaN());
  linalg::syrk<T>(op, static_cast<T>(alpha), input.view(), static_cast<T>(beta), result.view());
  Dense expected = reference::multiply(a, reference::transpose(a));
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] = alpha * expected.values[i] + (beta == 0.0 ? 0.0 : beta * c.values[i]);
  }
  EXPECT_EQ(result.dense().values, expected.values);
  EXPECT_TRUE(result.gaps_are_untouched());
}

// CASES 20: odd sizes, and sizes around the tile of the mirror.
TYPED_TEST(LinalgSyrk, EqualsPlainLoops) {
  for (const std::int64_t m : {1, 2, 7, 17, 31, 32, 33, 63, 65, 97}) {
    for (const std::int64_t k : {1, 5, 33, 130}) {
      for (const Op op : {Op::none, Op::transpose}) {
        for (const std::int64_t gap : {0, 3}) {
          compare<TypeParam>(op, m, k, gap, 1.0, 0.0);
          compare<TypeParam>(op, m, k, gap, -0.5, 2.0);
        }
      }
    }
  }
}

TYPED_TEST(LinalgSyrk, EmptySides) {
  for (const Op op : {Op::none, Op::transpose}) {
    compare<TypeParam>(op, 0, 4, 1, 1.0, 0.0);
    compare<TypeParam>(op, 5, 0, 0, 1.0, 0.0);
    compare<TypeParam>(op, 5, 0, 2, 1.0, 2.0);
  }
}

TYPED_TEST(LinalgSyrk, ResultIsExactlySymmetric) {
  for (const std::int64_t m : {33, 64, 101}) {
    const Strided<TypeParam> input(reference::gaussian(m, 77, 5));
    const Strided<TypeParam> result(m, m);
    linalg::syrk<TypeParam>(Op::none, TypeParam(0.3), input.view(), TypeParam{0}, result.view());
    const Strided<TypeParam> mirrored(reference::transpose(result.dense()));
    EXPECT_EQ(result.bits(), mirrored.bits()) << m;
    Dense exact = reference::multiply(input.dense(), reference::transpose(input.dense()));
    for (double& value : exact.values)
      value *= 0.3;
    EXPECT_LT(reference::relative_distance(result.dense(), exact), 1e-6);
  }
}

TYPED_TEST(LinalgSyrk, ExtentsThatDoNotFitThrow) {
  const Strided<TypeParam> a(2, 3);
  const Strided<TypeParam> three(3, 3);
  const Strided<TypeParam> oblong(2, 3);
  EXPECT_THROW((linalg::syrk<TypeParam>(Op::none, 1, a.view(), 0, three.view())), ContractError);
  EXPECT_THROW((linalg::syrk<TypeParam>(Op::none, 1, a.view(), 0, oblong.view())), ContractError);
  linalg::syrk<TypeParam>(Op::transpose, 1, a.view(), 0, three.view());
  EXPECT_EQ(three(2, 1), 2 * Strided<TypeParam>::mark * Strided<TypeParam>::mark);
}

TYPED_TEST(LinalgSyrk, StrideBelowColumnsThrows) {
  std::vector<TypeParam> values(4, TypeParam{1});
  std::vector<TypeParam> result(4, TypeParam{7});
  const MatrixView<TypeParam> a(values.data(), 2, 2);
  const MatrixView<TypeParam> c(result.data(), 2, 2);
  const MatrixView<TypeParam> narrow_a(values.data(), 2, 2, 1);
  const MatrixView<TypeParam> narrow_c(result.data(), 2, 2, 1);
  for (const Op op : {Op::none, Op::transpose}) {
    EXPECT_THROW((linalg::syrk<TypeParam>(op, 1, narrow_a, 0, c)), ContractError);
    EXPECT_THROW((linalg::syrk<TypeParam>(op, 1, a, 0, narrow_c)), ContractError);
  }
  EXPECT_EQ(result, std::vector<TypeParam>(4, TypeParam{7}));
}

}  // namespace
}  // namespace matrixfsdp
