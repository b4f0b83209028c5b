#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "support/messages.hpp"
#include "support/transformer_model.hpp"

namespace matrixfsdp::test {
namespace {

class NnContract : public ::testing::Test {
 protected:
  TransformerShape shape = small_gpt2();
  WholeModel<float> model{shape};
  nn::Transformer<float> network{shape, small_options()};
  std::vector<std::int32_t> ids = random_ids(14, 11, 1);
  Tensor<float> logits = make_tensor<float>("logits", 2 * 11);
};

#define EXPECT_MESSAGE(type, statement, expected) EXPECT_EQ(message_of<type>([&] { statement; }), expected)

TEST_F(NnContract, order_of_calls) {
  auto& w = model.weights;
  auto& g = model.gradients;
  EXPECT_MESSAGE(ContractError, network.block_forward(0, w[1]), "block_forward of layer 0 of 2: expected embed first");
  EXPECT_MESSAGE(ContractError, network.loss(w[0], ids), "loss: 0 of 2 blocks have run forward, expected all");
  EXPECT_MESSAGE(ContractError, network.block_backward(1, w[2], g[2]),
                 "block_backward of layer 1 of 2: no gradient is waiting, expected loss_forward_backward first");
  network.embed(w[0], ids);
  EXPECT_MESSAGE(ContractError, network.block_forward(1, w[2]), "block_forward of layer 1 of 2: expected layer 0");
  network.block_forward(0, w[1]);
  EXPECT_MESSAGE(ContractError, network.loss_forward_backward(w[0], g[0], ids, 1.0F),
                 "loss_forward_backward: 1 of 2 blocks have run forward, expected all");
  network.block_forward(1, w[2]);
  EXPECT_THROW(network.block_forward(2, w[2]), ContractError);
  EXPECT_MESSAGE(ContractError, network.embed_backward(g[0], ids),
                 "embed_backward: 0 of 2 blocks have run backward, expected all");
  network.loss_forward_backward(w[0], g[0], ids, 1.0F);
  EXPECT_MESSAGE(ContractError, network.loss_forward_backward(w[0], g[0], ids, 1.0F),
                 "loss_forward_backward: called twice, expected embed in between");
  EXPECT_MESSAGE(ContractError, network.block_backward(0, w[1], g[1]),
                 "block_backward of layer 0 of 2: expected layer 1");
  network.block_backward(1, w[2], g[2]);
  EXPECT_MESSAGE(ContractError, network.logits(w[0], 6, logits),
                 "logits: 0 of 2 blocks have run forward, expected all");
  EXPECT_MESSAGE(ContractError, network.embed_backward(g[0], ids),
                 "embed_backward: 1 of 2 blocks have run backward, expected all");
  network.block_backward(0, w[1], g[1]);
  network.embed_backward(g[0], ids);
  EXPECT_THROW(network.block_backward(0, w[1], g[1]), ContractError);
}

TEST_F(NnContract, tensors_of_another_number_or_size) {
  UnitTensors<float> few = model.weights[0];
  few.pop_back();
  EXPECT_MESSAGE(ContractError, network.embed(few, ids), "unit root: 3 weight tensors, expected 4");
  network.embed(model.weights[0], ids);
  UnitTensors<float> sharded = model.weights[1];
  sharded[2] = TensorView<float>();
  EXPECT_MESSAGE(ContractError, network.block_forward(0, sharded),
                 "block.0.attention.qkv: weight of 0 elements, expected 1728 (72, 24)");
  network.block_forward(0, model.weights[1]);
  network.block_forward(1, model.weights[2]);
  network.loss_forward_backward(model.weights[0], model.gradients[0], ids, 1.0F);
  UnitTensors<float> part = model.gradients[2];
  part[10] = slice(part[10], 0, 24);
  EXPECT_MESSAGE(ContractError, network.block_backward(1, model.weights[2], part),
                 "block.1.mlp.down: gradient of 24 elements, expected 480 (24, 20)");
}

TEST_F(NnContract, ids) {
  std::vector<std::int32_t> few(13, 0);
  EXPECT_MESSAGE(ContractError, network.embed(model.weights[0], few), "tokens: 13 ids, expected 14 (2 sequences of 7)");
  ids[9] = 11;
  EXPECT_MESSAGE(InputError, network.embed(model.weights[0], ids), "tokens: id 11 at position 9, expected 0 to 10");
  ids[9] = 10;
  model.forward(network, ids);
  ids[3] = -1;
  EXPECT_MESSAGE(InputError, network.loss(model.weights[0], ids), "targets: id -1 at position 3, expected 0 to 10");
}

TEST_F(NnContract, logits) {
  model.forward(network, ids);
  EXPECT_MESSAGE(ContractError, network.logits(model.weights[0], 7, logits), "logits: position 7, expected 0 to 6");
  Tensor<float> small = make_tensor<float>("small", 11);
  EXPECT_MESSAGE(ContractError, network.logits(model.weights[0], 6, small),
                 "logits: tensor of 11 elements, expected 22 (2 sequences by 11 tokens)");
}

TEST_F(NnContract, options) {
  nn::TransformerOptions options = small_options();
  options.sequence_length = 10;
  EXPECT_MESSAGE(InputError, nn::Transformer<float>(shape, options),
                 "sequence length 10: expected 1 to 9, the model's");
  options = small_options();
  options.micro_batch = 0;
  EXPECT_MESSAGE(InputError, nn::Transformer<float>(shape, options), "micro batch 0: expected at least 1");
  options = small_options();
  options.query_block = -1;
  EXPECT_MESSAGE(InputError, nn::Transformer<float>(shape, options), "query block -1: expected at least 1");
  shape.heads = 5;
  EXPECT_THROW(nn::Transformer<float>(shape, small_options()), InputError);
}

}  // namespace
}  // namespace matrixfsdp::test
