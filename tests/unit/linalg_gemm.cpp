#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "support/matrices.hpp"
#include "support/messages.hpp"

namespace matrixfsdp {
namespace {

using linalg::Op;
using reference::Dense;
using test::integers;
using test::Strided;

Dense expected(double alpha, const Dense& a, const Dense& b, double beta, const Dense& c) {
  Dense result = reference::multiply(a, b);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    result.values[i] = alpha * result.values[i] + (beta == 0.0 ? 0.0 : beta * c.values[i]);
  }
  return result;
}

template <class T>
class LinalgGemm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinalgGemm, Types);

template <class T>
void compare(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t gap, double alpha,
             double beta) {
  SCOPED_TRACE(::testing::Message() << "transposed " << (op_a == Op::transpose) << (op_b == Op::transpose) << " m " << m
                                    << " n " << n << " k " << k << " gap " << gap << " alpha " << alpha << " beta "
                                    << beta);
  const Dense a = integers(m, k, 1);
  const Dense b = integers(k, n, 2);
  const Dense c = integers(m, n, 3);
  const Strided<T> left(op_a == Op::none ? a : reference::transpose(a), gap);
  const Strided<T> right(op_b == Op::none ? b : reference::transpose(b), gap + 1);
  Strided<T> result(c, gap + 2);
  if (beta == 0.0) result.fill(std::numeric_limits<T>::quiet_NaN());
  linalg::gemm<T>(op_a, op_b, static_cast<T>(alpha), left.view(), right.view(), static_cast<T>(beta), result.view());
  EXPECT_EQ(result.dense().values, expected(alpha, a, b, beta, c).values);
  EXPECT_TRUE(result.gaps_are_untouched());
}

TYPED_TEST(LinalgGemm, EqualsPlainLoops) {
  const std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> sizes{
      {1, 1, 1}, {1, 1, 7},   {1, 9, 1},    {9, 1, 1},    {1, 33, 17},   {33, 1, 17},
      {2, 3, 5}, {33, 17, 9}, {17, 33, 65}, {64, 64, 64}, {65, 63, 129}, {130, 3, 2}};
  for (const auto& [m, n, k] : sizes) {
    for (const Op op_a : {Op::none, Op::transpose}) {
      for (const Op op_b : {Op::none, Op::transpose}) {
        for (const std::int64_t gap : {0, 3}) {
          compare<TypeParam>(op_a, op_b, m, n, k, gap, 1.0, 0.0);
          compare<TypeParam>(op_a, op_b, m, n, k, gap, -0.5, 2.0);
          compare<TypeParam>(op_a, op_b, m, n, k, gap, 2.0, 1.0);
        }
      }
    }
  }
}

TYPED_TEST(LinalgGemm, NoInnerExtentScalesTheResult) {
  for (const Op op : {Op::none, Op::transpose}) {
    compare<TypeParam>(op, op, 5, 3, 0, 0, 1.0, 0.0);
    compare<TypeParam>(op, op, 5, 3, 0, 2, 1.0, 2.0);
  }
}

TYPED_TEST(LinalgGemm, NoResultDoesNothing) {
  compare<TypeParam>(Op::none, Op::none, 0, 3, 4, 0, 1.0, 0.0);
  compare<TypeParam>(Op::none, Op::transpose, 3, 0, 4, 1, 1.0, 1.0);
  compare<TypeParam>(Op::transpose, Op::none, 0, 0, 0, 0, 1.0, 0.0);
}

TYPED_TEST(LinalgGemm, ExtentsThatDoNotFitThrow) {
  const Strided<TypeParam> a(2, 3);
  const Strided<TypeParam> b(4, 5);
  const Strided<TypeParam> c(2, 5);
  const auto call = [&] { linalg::gemm<TypeParam>(Op::none, Op::none, 1, a.view(), b.view(), 0, c.view()); };
  EXPECT_THROW(call(), ContractError);
  const auto transposed = [&] { linalg::gemm<TypeParam>(Op::transpose, Op::none, 1, a.view(), a.view(), 0, c.view()); };
  EXPECT_THROW(transposed(), ContractError);
}

// BLAS itself prints a line and returns, with C as it was.
TYPED_TEST(LinalgGemm, StrideBelowColumnsThrows) {
  std::vector<TypeParam> values(6, TypeParam{1});
  std::vector<TypeParam> result(4, TypeParam{7});
  const MatrixView<TypeParam> narrow(values.data(), 2, 2, 1);
  const MatrixView<TypeParam> good(values.data(), 2, 2);
  const MatrixView<TypeParam> c(result.data(), 2, 2);
  const MatrixView<TypeParam> narrow_c(result.data(), 2, 2, 1);
  const auto gemm = [](Op op, const MatrixView<TypeParam>& a, const MatrixView<TypeParam>& b,
                       const MatrixView<TypeParam>& to) { linalg::gemm<TypeParam>(op, op, 1, a, b, 0, to); };
  for (const Op op : {Op::none, Op::transpose}) {
    EXPECT_THROW(gemm(op, narrow, good, c), ContractError);
    EXPECT_THROW(gemm(op, good, narrow, c), ContractError);
    EXPECT_THROW(gemm(op, good, good, narrow_c), ContractError);
  }
  EXPECT_EQ(result, std::vector<TypeParam>(4, TypeParam{7}));
}

TYPED_TEST(LinalgGemm, OneRowHasNoStride) {
  const Strided<TypeParam> values(1, 3);
  for (int i = 0; i < 3; ++i)
    values(0, i) = static_cast<TypeParam>(i + 1);
  const Strided<TypeParam> result(1, 1);
  const MatrixView<TypeParam> row(values.view().data, 1, 3, 0);
  linalg::gemm<TypeParam>(Op::none, Op::transpose, 1, row, row, 0, MatrixView<TypeParam>(result.view().data, 1, 1, 0));
  EXPECT_EQ(result(0, 0), TypeParam{14});
}

// CASES 43 of the same kind: a count that BLAS cannot hold is refused, not wrapped.
TYPED_TEST(LinalgGemm, ExtentBeyondBlasThrows) {
  const std::int64_t huge = std::int64_t{1} << 31;
  TypeParam value = 1;
  const MatrixView<TypeParam> a(&value, 1, huge);
  const MatrixView<TypeParam> b(&value, huge, 1);
  const MatrixView<TypeParam> c(&value, 1, 1);
  EXPECT_THROW((linalg::gemm<TypeParam>(Op::none, Op::none, 1, a, b, 0, c)), ContractError);
  EXPECT_EQ(value, TypeParam{1});
}

TEST(LinalgThreads, CountBelowOneThrows) {
  EXPECT_THROW(linalg::set_threads(0), ContractError);
  EXPECT_THROW(linalg::set_threads(-3), ContractError);
}

TEST(LinalgMath, Tf32IsAnErrorThatNamesWhatIsMissing) {
  EXPECT_EQ(linalg::name_of(linalg::Math::float32), "float32");
  EXPECT_EQ(linalg::name_of(linalg::Math::tf32), "tf32");
  EXPECT_NO_THROW(linalg::set_math(linalg::Math::float32));
  const std::string obstacle = linalg::tf32_obstacle();
  if (obstacle.empty()) {
    EXPECT_NO_THROW(linalg::require_math(linalg::Math::tf32, "--math tf32"));
    return;
  }
  EXPECT_EQ(test::message_of<InputError>([] { linalg::set_math(linalg::Math::tf32); }), "tf32: " + obstacle);
  EXPECT_EQ(test::message_of<InputError>([] { linalg::require_math(linalg::Math::tf32, "--math tf32"); }),
            "--math tf32: " + obstacle);
}

TEST(LinalgThreads, BlasIsNamedInOneLine) {
  const std::string name = linalg::blas_description();
  EXPECT_TRUE(name.find("BLAS") != std::string::npos || name == "MKL") << name;
  EXPECT_EQ(name.find('\n'), std::string::npos) << name;
}

}  // namespace
}  // namespace matrixfsdp
