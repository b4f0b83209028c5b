#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/eigen.hpp>

#include "support/matrices.hpp"

namespace matrixfsdp {
namespace {

using linalg::DecompositionScratch;
using linalg::DecompositionWorkspace;
using linalg::EigenResult;
using reference::Dense;
using test::Strided;

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 3e-6 : 1e-14;

/// X X^T of a random X: with `rank` below the extent singular.
Dense covariance(std::int64_t extent, std::int64_t rank, std::uint64_t seed) {
  const Dense x = reference::gaussian(extent, rank, seed);
  return reference::multiply(x, reference::transpose(x));
}

double distance_to_orthonormal(const Dense& rows) {
  Dense gram = reference::multiply(rows, reference::transpose(rows));
  for (std::int64_t i = 0; i < gram.rows; ++i)
    gram(i, i) -= 1.0;
  return reference::norm(gram) / std::sqrt(static_cast<double>(gram.rows));
}

template <class T>
class LinalgEigen : public ::testing::Test {
 protected:
  /// A as it is after the call, with `values`.
  static EigenResult decompose(const Strided<T>& a, const Tensor<T>& values) {
    const DecompositionWorkspace<T> workspace(DecompositionScratch::for_eigenvectors(a.view().rows));
    return linalg::eigenvectors<T>(a.view(), values, workspace);
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinalgEigen, Types);

// CASES 20: odd sizes and 1 x 1; singular matrices too.
TYPED_TEST(LinalgEigen, RowsAreEigenvectorsInAscendingOrder) {
  for (const std::int64_t m : {1, 2, 3, 17, 33, 100}) {
    for (const std::int64_t rank : {m, (m + 1) / 2}) {
      for (const std::int64_t gap : {0, 3}) {
        SCOPED_TRACE(::testing::Message() << m << " of rank " << rank << ", gap " << gap);
        const Dense original = covariance(m, rank, 5);
        const Strided<TypeParam> a(original, gap);
        const Tensor<TypeParam> values = make_tensor<TypeParam>("values", m);
        ASSERT_TRUE(this->decompose(a, values).ok());
        const Dense v = a.dense();
        EXPECT_LE(distance_to_orthonormal(v), tolerance<TypeParam>);
        Dense scaled = v;
        for (std::int64_t i = 0; i < m; ++i) {
          EXPECT_LE(values.data()[i > 0 ? i - 1 : 0], values.data()[i]);
          for (std::int64_t j = 0; j < m; ++j)
            scaled(i, j) *= static_cast<double>(values.data()[i]);
        }
        const Dense composed = reference::multiply(reference::transpose(v), scaled);
        EXPECT_LE(reference::relative_distance(composed, original), tolerance<TypeParam>);
        EXPECT_TRUE(a.gaps_are_untouched());
      }
    }
  }
}

TYPED_TEST(LinalgEigen, ReadsTheLowerTriangleOnly) {
  const Dense original = covariance(5, 5, 6);
  const Strided<TypeParam> whole(original);
  const Strided<TypeParam> half(original);
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = i + 1; j < 5; ++j)
      half(i, j) = std::numeric_limits<TypeParam>::quiet_NaN();
  }
  const Tensor<TypeParam> values = make_tensor<TypeParam>("values", 5);
  ASSERT_TRUE(this->decompose(whole, values).ok());
  ASSERT_TRUE(this->decompose(half, values).ok());
  EXPECT_EQ(half.bits(), whole.bits());
}

TYPED_TEST(LinalgEigen, AZeroMatrixHasTheUnitVectors) {
  const Strided<TypeParam> a(Dense(4, 4));
  const Tensor<TypeParam> values = make_tensor<TypeParam>("values", 4);
  ASSERT_TRUE(this->decompose(a, values).ok());
  EXPECT_EQ(distance_to_orthonormal(a.dense()), 0.0);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(values.data()[i], TypeParam{0});
}

// LAPACK might loop over a NaN: it is an answer, and the matrix stays.
TYPED_TEST(LinalgEigen, NonFiniteIsAnAnswer) {
  for (const TypeParam bad :
       {std::numeric_limits<TypeParam>::quiet_NaN(), std::numeric_limits<TypeParam>::infinity()}) {
    const Strided<TypeParam> a(covariance(6, 6, 7));
    a(4, 2) = bad;
    const std::string before = a.bits();
    const EigenResult result = this->decompose(a, make_tensor<TypeParam>("values", 6));
    EXPECT_EQ(result.status, EigenResult::Status::non_finite);
    EXPECT_FALSE(result.ok());
    EXPECT_NE(result.message().find("6x6"), std::string::npos) << result.message();
    EXPECT_EQ(a.bits(), before);
  }
}

TYPED_TEST(LinalgEigen, OrthonormalRowsSpanWhatTheRowsSpanned) {
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 5}, {7, 7}, {33, 33}, {17, 40}}) {
    for (const std::int64_t gap : {0, 2}) {
      SCOPED_TRACE(::testing::Message() << m << "x" << n << ", gap " << gap);
      const Dense original = reference::gaussian(m, n, 8);
      const Strided<TypeParam> a(original, gap);
      linalg::orthonormal_rows<TypeParam>(
          a.view(), DecompositionWorkspace<TypeParam>(DecompositionScratch::for_orthonormal_rows(m)));
      const Dense q = a.dense();
      EXPECT_LE(distance_to_orthonormal(q), tolerance<TypeParam>);
      // A = L Q with a lower triangular L = A Q^T.
      Dense lower = reference::multiply(original, reference::transpose(q));
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = i + 1; j < m; ++j)
          lower(i, j) = 0.0;
      }
      EXPECT_LE(reference::relative_distance(reference::multiply(lower, q), original), tolerance<TypeParam>);
      EXPECT_TRUE(a.gaps_are_untouched());
    }
  }
}

TYPED_TEST(LinalgEigen, RowsOfAnyRankBecomeOrthonormal) {
  for (const Dense& dependent : {Dense(5, 5), covariance(5, 2, 9)}) {
    const Strided<TypeParam> a(dependent);
    linalg::orthonormal_rows<TypeParam>(
        a.view(), DecompositionWorkspace<TypeParam>(DecompositionScratch::for_orthonormal_rows(5)));
    EXPECT_LE(distance_to_orthonormal(a.dense()), tolerance<TypeParam>);
  }
}

// LAPACK's block sizes depend on the workspace that it is told of: it must not be that of another matrix. Bits do not
// depend on what else a rank owns.
TYPED_TEST(LinalgEigen, BitsDoNotDependOnTheSizeOfTheWorkspace) {
  for (const std::int64_t m : {36, 52, 144}) {
    DecompositionScratch exact = DecompositionScratch::for_eigenvectors(m);
    exact.include(DecompositionScratch::for_orthonormal_rows(m));
    const DecompositionWorkspace<TypeParam> tight(exact);
    const DecompositionWorkspace<TypeParam> ample({100 * exact.reals, 100 * exact.integers});
    const Dense original = covariance(m, m, 11);
    const Strided<TypeParam> one(original);
    const Strided<TypeParam> other(original);
    const Tensor<TypeParam> values = make_tensor<TypeParam>("values", m);
    ASSERT_TRUE(linalg::eigenvectors<TypeParam>(one.view(), values, tight).ok());
    ASSERT_TRUE(linalg::eigenvectors<TypeParam>(other.view(), values, ample).ok());
    EXPECT_EQ(one.bits(), other.bits()) << m;
    const Strided<TypeParam> rows(original);
    const Strided<TypeParam> other_rows(original);
    linalg::orthonormal_rows<TypeParam>(rows.view(), tight);
    linalg::orthonormal_rows<TypeParam>(other_rows.view(), ample);
    EXPECT_EQ(rows.bits(), other_rows.bits()) << m;
  }
}

TYPED_TEST(LinalgEigen, ContractsAreChecked) {
  const DecompositionWorkspace<TypeParam> workspace(DecompositionScratch::for_eigenvectors(3));
  const Strided<TypeParam> wide(2, 3);
  EXPECT_THROW(linalg::eigenvectors<TypeParam>(wide.view(), make_tensor<TypeParam>("values", 2), workspace),
               ContractError);
  const Strided<TypeParam> square(3, 3);
  EXPECT_THROW(linalg::eigenvectors<TypeParam>(square.view(), make_tensor<TypeParam>("values", 2), workspace),
               ContractError);
  const Strided<TypeParam> large(4, 4);
  EXPECT_THROW(linalg::eigenvectors<TypeParam>(large.view(), make_tensor<TypeParam>("values", 4), workspace),
               ContractError);
  const Strided<TypeParam> tall(3, 2);
  EXPECT_THROW(linalg::orthonormal_rows<TypeParam>(tall.view(), workspace), ContractError);
  EXPECT_THROW(linalg::orthonormal_rows<TypeParam>(large.view(), workspace), ContractError);
}

TEST(LinalgEigenResult, MessageOfOneThatDidNotConverge) {
  const EigenResult result{EigenResult::Status::not_converged, 8, 64, 3};
  const bool device = linalg::blas_description().find("cuSOLVER") != std::string::npos;
  EXPECT_EQ(result.message(), std::string("eigenvectors of a 8x8 matrix of float64: ") +
                                  (device ? "cuSOLVER's" : "LAPACK's") +
                                  " dsyevd did not converge (info 3), expected info 0");
}

}  // namespace
}  // namespace matrixfsdp
