#include "support/oracle/model.hpp"

namespace oracle {
namespace {

void add_vector(std::vector<ParameterInfo>& list, const std::string& name, std::size_t size) {
  list.push_back({name, {size}, Role::vector, {}});
}

void add_linear(std::vector<ParameterInfo>& list, const std::string& name, std::vector<std::size_t> row_blocks,
                std::size_t inputs) {
  std::size_t rows = 0;
  for (const std::size_t block : row_blocks)
    rows += block;
  list.push_back({name, {rows, inputs}, Role::linear, std::move(row_blocks)});
}

void add_norm(std::vector<ParameterInfo>& list, const std::string& name, const Model& model) {
  add_vector(list, name + ".weight", model.hidden);
  if (model.style == Style::gpt2) add_vector(list, name + ".bias", model.hidden);
}

void add_block(std::vector<ParameterInfo>& list, const std::string& block, const Model& model) {
  const bool biased = model.style == Style::gpt2;
  const std::size_t hidden = model.hidden;
  const std::size_t kv = model.kv_width();
  add_norm(list, block + "attention_norm", model);
  add_linear(list, block + "attention.qkv", {hidden, kv, kv}, hidden);
  if (biased) add_vector(list, block + "attention.qkv_bias", hidden + 2 * kv);
  add_linear(list, block + "attention.output", {hidden}, hidden);
  if (biased) add_vector(list, block + "attention.output_bias", hidden);
  add_norm(list, block + "mlp_norm", model);
  if (biased) {
    add_linear(list, block + "mlp.up", {model.ffn}, hidden);
    add_vector(list, block + "mlp.up_bias", model.ffn);
  } else {
    add_linear(list, block + "mlp.gate_up", {model.ffn, model.ffn}, hidden);
  }
  add_linear(list, block + "mlp.down", {hidden}, model.ffn);
  if (biased) add_vector(list, block + "mlp.down_bias", hidden);
}

}  // namespace

std::vector<ParameterInfo> parameter_list(const Model& model) {
  std::vector<ParameterInfo> list;
  list.push_back({"token_embedding", {model.vocabulary, model.hidden}, Role::embedding, {}});
  if (model.style == Style::gpt2) {
    list.push_back({"position_embedding", {model.sequence_length, model.hidden}, Role::embedding, {}});
  }
  add_norm(list, "final_norm", model);
  if (!model.tied_head) list.push_back({"head.weight", {model.vocabulary, model.hidden}, Role::head, {}});
  for (std::size_t layer = 0; layer < model.layers; ++layer)
    add_block(list, "block." + std::to_string(layer) + ".", model);
  return list;
}

}  // namespace oracle
