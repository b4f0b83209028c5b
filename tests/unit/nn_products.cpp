#include <gtest/gtest.h>

#include <matrixfsdp/nn/products.hpp>

#include "support/matrices.hpp"

namespace matrixfsdp::test {
namespace {

using linalg::Op;

struct Extents {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

// Above 2^29 FLOPs a product is cut: along each extent, along two of them, with remainders. Integers make every order
// of summation exact, so the whole product must come out equal.
TEST(nn_products, pieces_make_the_whole) {
  for (const Extents& e :
       {Extents{1300, 500, 600}, Extents{500, 1300, 600}, Extents{300, 300, 4000}, Extents{1000, 1000, 1100}}) {
    for (const Op op_a : {Op::none, Op::transpose}) {
      for (const Op op_b : {Op::none, Op::transpose}) {
        const Strided<float> a(op_a == Op::none ? integers(e.m, e.k, 1) : integers(e.k, e.m, 1), 3);
        const Strided<float> b(op_b == Op::none ? integers(e.k, e.n, 2) : integers(e.n, e.k, 2), 1);
        const reference::Dense start = integers(e.m, e.n, 3);
        Strided<float> whole(start, 2);
        Strided<float> pieces(start, 5);
        linalg::gemm<float>(op_a, op_b, 2.0F, a.view(), b.view(), 1.0F, whole.view());
        nn::Products products;
        std::int64_t polls = 0;
        products.set_poll([&polls] { ++polls; });
        products.multiply<float>(op_a, op_b, 2.0F, a.view(), b.view(), 1.0F, pieces.view());
        EXPECT_EQ(products.flops(), 2 * e.m * e.n * e.k);
        EXPECT_GT(polls, 1);
        EXPECT_TRUE(pieces.bits() == whole.bits()) << e.m << " " << e.n << " " << e.k;
        EXPECT_TRUE(pieces.gaps_are_untouched());
        // Without an old value: NaN must not survive.
        pieces.fill(std::numeric_limits<float>::quiet_NaN());
        linalg::gemm<float>(op_a, op_b, 1.0F, a.view(), b.view(), 0.0F, whole.view());
        products.multiply<float>(op_a, op_b, 1.0F, a.view(), b.view(), 0.0F, pieces.view());
        EXPECT_TRUE(pieces.bits() == whole.bits()) << e.m << " " << e.n << " " << e.k;
      }
    }
  }
}

TEST(nn_products, counts_recomputation_apart) {
  nn::Products products;
  Strided<double> a(3, 4);
  Strided<double> c(3, 3);
  const auto multiply = [&] {
    products.multiply<double>(Op::none, Op::transpose, 1.0, a.view(), a.view(), 0.0, c.view());
  };
  multiply();
  {
    const nn::Products::Recomputation outer(products);
    {
      const nn::Products::Recomputation inner(products);
      multiply();
    }
    multiply();
  }
  multiply();
  EXPECT_EQ(products.flops(), 2 * 72);
  EXPECT_EQ(products.recompute_flops(), 2 * 72);
}

}  // namespace
}  // namespace matrixfsdp::test
