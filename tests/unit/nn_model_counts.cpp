#include <gtest/gtest.h>

#include "support/count_allocations.hpp"
#include "support/transformer_model.hpp"

namespace matrixfsdp::test {
namespace {

TEST(nn_counts, query_blocks_of_one_do_the_products_of_the_plan) {
  for (const TransformerShape& shape : {small_gpt2(), small_llama()}) {
    nn::TransformerOptions options = small_options();
    options.query_block = 1;
    WholeModel<float> model(shape);
    nn::Transformer<float> network(shape, options);
    const auto ids = random_ids(14, 11, 1);
    const std::int64_t forward = forward_product_flops(shape, 14, 7);
    model.loss(network, ids, ids);
    EXPECT_EQ(network.product_flops(), forward);
    EXPECT_EQ(network.recompute_flops(), 0);
    model.pass(network, ids, ids, 1.0F);
    EXPECT_EQ(network.product_flops(), forward + 3 * forward);
  }
}

// Blocks of 4 of 7 queries: 4 x 4 and 3 x 7 scores instead of 28 of the triangle.
TEST(nn_counts, query_blocks_count_their_masked_part_too) {
  const TransformerShape shape = small_gpt2();
  WholeModel<float> model(shape);
  nn::Transformer<float> network(shape, small_options());
  const auto ids = random_ids(14, 11, 1);
  model.pass(network, ids, ids, 1.0F);
  const std::int64_t pairs = 2 * 3 * (4 * 4 + 3 * 7);  // sequences, heads
  const std::int64_t triangle = 2 * 3 * 28;
  const std::int64_t extra = 2 * 2 * (2 * 8) * (pairs - triangle);  // layers, score and value, 2 d
  EXPECT_EQ(network.product_flops(), 3 * (forward_product_flops(shape, 14, 7) + extra));
  EXPECT_EQ(network.recompute_flops(), 2 * 2 * 8 * pairs) << "the scores once more, in two layers";
}

TEST(nn_counts, frozen_weights_cost_no_product) {
  const TransformerShape shape = small_gpt2();
  WholeModel<float> model(shape);
  nn::Transformer<float> all(shape, small_options());
  nn::Transformer<float> some(shape, small_options());
  const auto ids = random_ids(14, 11, 1);
  model.pass(all, ids, ids, 1.0F);
  model.gradients[2][8] = TensorView<float>();  // block.1.mlp.up
  model.pass(some, ids, ids, 1.0F);
  EXPECT_EQ(all.product_flops() - some.product_flops(), 2 * 14 * 24 * 20);
}

/// Floats of one block of GPT-2: norm statistics, qkv, log-sums, attention, middle, inner.
std::int64_t gpt2_block_elements(std::int64_t tokens, const TransformerShape& s) {
  return tokens * (4 + 3 * s.hidden + s.heads + 2 * s.hidden + s.ffn);
}

TEST(nn_counts, activation_bytes_are_the_stated_arrays) {
  const TransformerShape shape{TransformerStyle::gpt2, 3, 64, 4, 4, 256, 512, 999, true};
  for (const bool recompute : {false, true}) {
    const nn::TransformerOptions options{2, 512, recompute, 100, 32};
    const nn::Transformer<float> network(shape, options);
    const std::int64_t tokens = 2 * 512;
    const std::int64_t elements = (3 + 1) * tokens * 64                                       // stream
                                  + (recompute ? 1 : 3) * gpt2_block_elements(tokens, shape)  // kept
                                  + 2 * tokens + 3 * tokens * 64                              // final norm, scratch
                                  + tokens * 256                                              // wide scratch
                                  + tokens * 4 + 2 * 32 * 512;                                // attention scratch
    EXPECT_EQ(network.activation_bytes(), 4 * elements + (4 + 4 + 8) * tokens);
    // What must not exist: (sequences, heads, length, length), (tokens, vocabulary).
    if (recompute) {
      EXPECT_LT(network.activation_bytes(), 4 * 2 * 4 * 512 * 512);
      EXPECT_LT(network.activation_bytes(), 4 * tokens * 999 + 4 * 4 * tokens * 64 * 4);
    }
  }
}

TEST(nn_counts, a_wide_vocabulary_adds_one_block_of_logits) {
  TransformerShape shape{TransformerStyle::llama, 1, 32, 4, 2, 16, 64, 1000, false};
  const nn::TransformerOptions options{2, 64, false, 10, 16};
  const nn::Transformer<float> narrow(shape, options);
  shape.vocabulary = 5000;
  const nn::Transformer<float> wide(shape, options);
  EXPECT_EQ(wide.activation_bytes() - narrow.activation_bytes(), 4 * 10 * 4000);
}

TEST(nn_counts, activation_bytes_are_what_kokkos_allocates_and_a_pass_allocates_nothing) {
  for (const TransformerShape& shape : {small_gpt2(), small_llama()}) {
    for (const bool recompute : {false, true}) {
      WholeModel<double> model(shape);
      const auto ids = random_ids(14, 11, 1);
      const CountAllocations allocations;
      nn::Transformer<double> network(shape, small_options(recompute));
      EXPECT_EQ(network.activation_bytes(), allocations.bytes());
      const std::int64_t arrays = allocations.count();
      model.pass(network, ids, ids, 1.0);
      EXPECT_EQ(allocations.count(), arrays);
    }
  }
}

TEST(nn_counts, polls_between_products_and_with_the_same_bits) {
  const TransformerShape shape = small_gpt2();
  WholeModel<float> silent(shape);
  WholeModel<float> polled(shape);
  nn::Transformer<float> network(shape, small_options());
  const auto ids = random_ids(14, 11, 1);
  silent.pass(network, ids, ids, 1.0F);
  std::int64_t polls = 0;
  network.set_poll([&polls] { ++polls; });
  polled.pass(network, ids, ids, 1.0F);
  EXPECT_GT(polls, 2 * 3 * 4) << "at least once for each of 4 linear maps, 3 products each, in 2 blocks";
  EXPECT_TRUE(silent.gradient_bits() == polled.gradient_bits());
}

}  // namespace
}  // namespace matrixfsdp::test
