#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>

#include "support/bfloat16_matrices.hpp"
#include "support/matrices.hpp"
#include "support/messages.hpp"

// Small integers are bfloat16 values, and sums of their products are exact in float32: results must be equal.
namespace matrixfsdp {
namespace {

using linalg::Op;
using reference::Dense;
using test::BfloatMatrix;
using test::Strided;

struct Extents {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

/// Where a test is about products that this build on this processor does not have, what must happen instead.
bool is_refused() {
  const std::string obstacle = linalg::bfloat16_obstacle();
  if (obstacle.empty()) return false;
  EXPECT_EQ(test::message_of<InputError>([] { linalg::Bfloat16Products(); }), "products of bfloat16: " + obstacle);
  return true;
}

// CASES 20: odd sizes among them.
TEST(LinalgBfloat16, EqualsPlainLoops) {
  if (is_refused()) return;
  linalg::Bfloat16Products products;
  for (const Extents& e : std::vector<Extents>{
           {1, 1, 1}, {1, 40, 7}, {40, 1, 7}, {33, 17, 65}, {17, 33, 1}, {64, 64, 64}, {100, 70, 130}, {3, 5, 0}}) {
    for (const Op op_a : {Op::none, Op::transpose}) {
      for (const Op op_b : {Op::none, Op::transpose}) {
        const Dense a = test::integers(e.m, e.k, 1);
        const Dense b = test::integers(e.k, e.n, 2);
        const BfloatMatrix left(op_a == Op::none ? a : reference::transpose(a), 3);
        const BfloatMatrix right(op_b == Op::none ? b : reference::transpose(b), 1);
        const Dense start = test::integers(e.m, e.n, 3);
        Dense expected = reference::multiply(a, b);
        Strided<float> plain(e.m, e.n, 2);
        plain.fill(std::numeric_limits<float>::quiet_NaN());
        products.gemm(op_a, op_b, left.view(), right.view(), false, plain.view());
        EXPECT_EQ(plain.dense().values, expected.values) << e.m << " " << e.n << " " << e.k;
        BfloatMatrix rounded(e.m, e.n, 5);
        products.gemm(op_a, op_b, left.view(), right.view(), rounded.view());
        EXPECT_EQ(rounded.dense().values, test::rounded_to_bfloat16(expected).values);
        const Strided<float> added(start, 1);
        products.gemm(op_a, op_b, left.view(), right.view(), true, added.view());
        for (std::size_t i = 0; i < expected.values.size(); ++i)
          expected.values[i] += start.values[i];
        EXPECT_EQ(added.dense().values, expected.values);
        EXPECT_TRUE(plain.gaps_are_untouched() && rounded.gaps_are_untouched() && added.gaps_are_untouched());
      }
    }
  }
}

// Sums are float32: 256 + 1 is 257, which bfloat16 does not have.
TEST(LinalgBfloat16, SumsAreFloat32) {
  if (is_refused()) return;
  linalg::Bfloat16Products products;
  Dense a(1, 2);
  a.values = {256, 1};
  Dense b(2, 1);
  b.values = {1, 1};
  const Strided<float> c(1, 1);
  products.gemm(Op::none, Op::none, BfloatMatrix(a).view(), BfloatMatrix(b).view(), false, c.view());
  EXPECT_EQ(c.dense().values, std::vector<double>{257});
}

TEST(LinalgBfloat16, SquaresOfWideAndTallMatrices) {
  if (is_refused()) return;
  linalg::Bfloat16Products products;
  for (const std::int64_t extent : {1, 33, 95, 97, 200}) {
    const Dense a = test::integers(extent, 50, 4);
    const Dense expected = reference::multiply(a, reference::transpose(a));
    for (const Op op : {Op::none, Op::transpose}) {
      const BfloatMatrix matrix(op == Op::none ? a : reference::transpose(a), 1);
      const Strided<float> plain(extent, extent, 2);
      products.square_lower<float>(op, matrix.view(), plain.view());
      linalg::mirror<float>(plain.view());
      EXPECT_EQ(plain.dense().values, expected.values) << extent;
      const BfloatMatrix rounded(extent, extent, 2);
      products.square_lower<bfloat16>(op, matrix.view(), rounded.view());
      linalg::mirror<bfloat16>(rounded.view());
      EXPECT_EQ(rounded.dense().values, test::rounded_to_bfloat16(expected).values) << extent;
      EXPECT_TRUE(plain.gaps_are_untouched() && rounded.gaps_are_untouched());
    }
  }
}

TEST(LinalgBfloat16, TheSecondProductOfAShapeHasTheSameBitsAndNoNewScratch) {
  if (is_refused()) return;
  linalg::Bfloat16Products products;
  const BfloatMatrix a(reference::gaussian(130, 300, 5));
  const BfloatMatrix b(reference::gaussian(300, 90, 6));
  const Strided<float> first(130, 90);
  const Strided<float> second(130, 90);
  products.gemm(Op::none, Op::none, a.view(), b.view(), false, first.view());
  const std::int64_t bytes = products.bytes();
  products.gemm(Op::none, Op::none, a.view(), b.view(), false, second.view());
  EXPECT_EQ(first.bits(), second.bits());
  EXPECT_EQ(products.bytes(), bytes);
  EXPECT_LT(reference::relative_distance(first.dense(), reference::multiply(a.dense(), b.dense())), 1e-6);
}

TEST(LinalgBfloat16, WhatDoesNotFitThrows) {
  if (is_refused()) return;
  linalg::Bfloat16Products products;
  const BfloatMatrix three(3, 4);
  const Strided<float> result(3, 3);
  const auto multiply = [&](MatrixView<const bfloat16> a, MatrixView<float> c) {
    products.gemm(Op::none, Op::transpose, a, three.view(), false, c);
  };
  EXPECT_THROW(multiply(three.view(), result.view().row_block(0, 2)), ContractError);
  EXPECT_THROW(multiply(BfloatMatrix(3, 5).view(), result.view()), ContractError);
  EXPECT_THROW(multiply({three.view().data, 3, 4, 2}, result.view()), ContractError);
  EXPECT_THROW(products.square_lower<float>(Op::transpose, three.view(), result.view()), ContractError);
}

TEST(LinalgBfloat16, TheObstacleIsNamedWithItsUser) {
  EXPECT_TRUE(test::mentions(linalg::onednn_description(), {"oneDNN"}));
  if (!is_refused()) {
    EXPECT_NO_THROW(linalg::require_bfloat16("--some-option"));
    return;
  }
  EXPECT_EQ(test::message_of<InputError>([] { linalg::require_bfloat16("--some-option"); }),
            "--some-option: " + linalg::bfloat16_obstacle());
}

// By hand: 97 is 48 and 49 on the diagonal, 49 x 48 below.
TEST(LinalgBfloat16, FlopsOfKnownSquares) {
  EXPECT_EQ(linalg::bfloat16_square_flops(0, 5), 0);
  EXPECT_EQ(linalg::bfloat16_square_flops(5, 0), 0);
  EXPECT_EQ(linalg::bfloat16_square_flops(96, 7), 2 * 96 * 96 * 7);
  EXPECT_EQ(linalg::bfloat16_square_flops(97, 7), 2 * 7 * (48 * 48 + 49 * 48 + 49 * 49));
}

}  // namespace
}  // namespace matrixfsdp
