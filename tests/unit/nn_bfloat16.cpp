#include <cmath>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/nn/products.hpp>

#include "support/bfloat16_matrices.hpp"
#include "support/count_allocations.hpp"
#include "support/matrices.hpp"
#include "support/messages.hpp"
#include "support/transformer_model.hpp"

namespace matrixfsdp::test {
namespace {

using linalg::Op;
using reference::Dense;

/// Where this build on this processor has no bfloat16, what must happen instead.
bool is_refused() {
  const std::string obstacle = linalg::bfloat16_obstacle();
  if (obstacle.empty()) return false;
  EXPECT_TRUE(mentions(message_of<InputError>([] { nn::Products(DType::bfloat16); }), {obstacle}));
  return true;
}

// Cut into pieces, along each extent: the rounded operands' exact products, summed in float32.
TEST(nn_bfloat16, linear_products_are_those_of_rounded_operands) {
  if (is_refused()) return;
  nn::Products products(DType::bfloat16);
  std::int64_t polls = 0;
  products.set_poll([&polls] { ++polls; });
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{5, 7, 9}, {130, 70, 33}}) {
    const Strided<float> a(reference::gaussian(m, k, 1), 2);
    const Strided<float> b(reference::gaussian(n, k, 2), 1);
    const Dense expected =
        reference::multiply(rounded_to_bfloat16(a.dense()), reference::transpose(rounded_to_bfloat16(b.dense())));
    const Strided<float> c(m, n, 3);
    products.multiply_linear<float>(Op::none, Op::transpose, a.view(), b.view(), false, c.view());
    EXPECT_LT(reference::relative_distance(c.dense(), expected), 1e-6);
    const Dense rounding_matters = reference::multiply(a.dense(), reference::transpose(b.dense()));
    EXPECT_GT(reference::relative_distance(c.dense(), rounding_matters), 1e-4);
    products.multiply_linear<float>(Op::none, Op::transpose, a.view(), b.view(), true, c.view());
    Dense twice = expected;
    for (double& value : twice.values)
      value *= 2;
    EXPECT_LT(reference::relative_distance(c.dense(), twice), 1e-6);
    EXPECT_TRUE(c.gaps_are_untouched());
  }
  EXPECT_EQ(products.flops(), 2 * 2 * (5 * 7 * 9 + 130 * 70 * 33));
  EXPECT_EQ(polls, 4);
}

TEST(nn_bfloat16, pieces_make_the_whole) {
  if (is_refused()) return;
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{1900, 600, 700}, {600, 1900, 700}, {400, 400, 4500}}) {
    const Strided<float> a(integers(m, k, 1));
    const Strided<float> b(integers(k, n, 2));
    const Strided<float> start(integers(m, n, 3));
    const Strided<float> whole(start.dense());
    linalg::gemm<float>(Op::none, Op::none, 1.0F, a.view(), b.view(), 1.0F, whole.view());
    nn::Products products(DType::bfloat16);
    std::int64_t polls = 0;
    products.set_poll([&polls] { ++polls; });
    products.multiply_linear<float>(Op::none, Op::none, a.view(), b.view(), true, start.view());
    EXPECT_EQ(start.bits(), whole.bits());
    EXPECT_GT(polls, 1);
  }
}

// A held copy is used, for this very view, while it is held and no longer.
TEST(nn_bfloat16, held_operands_are_rounded_once) {
  if (is_refused()) return;
  nn::Products products(DType::bfloat16);
  const Strided<float> a(integers(4, 6, 1));
  const Strided<float> b(integers(6, 5, 2));
  const Strided<float> c(4, 5);
  const Dense expected = reference::multiply(a.dense(), b.dense());
  const auto product = [&] {
    products.multiply_linear<float>(Op::none, Op::none, a.view(), b.view(), false, c.view());
    return c.dense().values;
  };
  {
    const nn::Products::Held held_a(products, MatrixView<const float>(a.view()));
    const nn::Products::Held held_b(products, MatrixView<const float>(b.view()));
    EXPECT_EQ(product(), expected.values);
    a(0, 0) += 1;  // against the rule, to see the copy
    EXPECT_EQ(product(), expected.values);
    EXPECT_THROW(nn::Products::Held(products, MatrixView<const float>(c.view())), ContractError);
  }
  EXPECT_NE(product(), expected.values);
}

TEST(nn_bfloat16, other_products_and_other_types_are_not_rounded) {
  if (is_refused()) return;
  nn::Products products(DType::bfloat16);
  const nn::Products plain;
  EXPECT_EQ(plain.bytes(), 0);
  Dense a(1, 1);
  a.values = {257};
  const Strided<float> one(a);
  const Strided<float> result(1, 1);
  products.multiply<float>(Op::none, Op::none, 1.0F, one.view(), one.view(), 0.0F, result.view());
  EXPECT_EQ(result(0, 0), 257.0F * 257.0F);
  products.multiply_linear<float>(Op::none, Op::none, one.view(), one.view(), false, result.view());
  EXPECT_EQ(result(0, 0), 256.0F * 256.0F);
  const Strided<double> wide(a);
  const Strided<double> wide_result(1, 1);
  products.multiply_linear<double>(Op::none, Op::none, wide.view(), wide.view(), false, wide_result.view());
  EXPECT_EQ(wide_result(0, 0), 257.0 * 257.0);
  EXPECT_THROW(nn::Products(DType::float64), InputError);
}

TEST(nn_bfloat16, a_model_is_close_to_float32_counts_the_same_and_allocates_once) {
  if (is_refused()) return;
  for (const TransformerShape& shape : {small_gpt2(), small_llama()}) {
    for (const bool recompute : {false, true}) {
      nn::TransformerOptions options = small_options(recompute);
      nn::Transformer<float> exact(shape, options);
      options.compute = DType::bfloat16;
      nn::Transformer<float> rounded(shape, options);
      WholeModel<float> model(shape, 0.1);
      WholeModel<float> rounded_model(shape, 0.1);
      const auto ids = random_ids(14, 11, 1);
      const double loss = model.pass(exact, ids, ids, 1.0F);
      const double rounded_loss = rounded_model.pass(rounded, ids, ids, 1.0F);
      EXPECT_NE(rounded_loss, loss);
      EXPECT_NEAR(rounded_loss, loss, 1e-2 * loss);
      double difference = 0;
      double norm = 0;
      for (std::size_t u = 0; u < model.gradients.size(); ++u) {
        for (std::size_t i = 0; i < model.gradients[u].size(); ++i) {
          for (std::size_t e = 0; e < model.gradients[u][i].extent(0); ++e) {
            const double entry = model.gradients[u][i].data()[e];
            difference += std::pow(rounded_model.gradients[u][i].data()[e] - entry, 2);
            norm += entry * entry;
          }
        }
      }
      EXPECT_LT(std::sqrt(difference / norm), 2e-2);
      EXPECT_EQ(rounded.product_flops(), exact.product_flops());
      std::int64_t copies = 0;
      for (const std::int64_t elements : rounded_operand_elements(shape, 14, options.token_block))
        copies += elements;
      EXPECT_EQ(rounded.activation_bytes() - exact.activation_bytes(), 2 * copies);
      const std::string first = rounded_model.gradient_bits();
      rounded_model.fill_gradients(0.0F);
      const CountAllocations allocations;
      EXPECT_EQ(rounded_model.pass(rounded, ids, ids, 1.0F), rounded_loss);
      EXPECT_TRUE(rounded_model.gradient_bits() == first);
      EXPECT_EQ(allocations.count(), 0);
      EXPECT_EQ(rounded.activation_bytes() - exact.activation_bytes(), 2 * copies);
    }
  }
}

TEST(nn_bfloat16, a_model_of_double_is_refused) {
  if (is_refused()) return;
  nn::TransformerOptions options = small_options();
  options.compute = DType::bfloat16;
  EXPECT_THROW(nn::Transformer<double>(small_gpt2(), options), InputError);
}

}  // namespace
}  // namespace matrixfsdp::test
