#include "apps/ckpt/hugging_face.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::ckpt {
namespace {

struct Rule {
  std::string_view ours;    // within the unit
  std::string_view block;   // of a fused matrix; empty: everything
  std::string_view theirs;  // behind the prefix of root or layer
  bool transposed = false;
};

constexpr std::array<Rule, 4> gpt2_root{{{"token_embedding", "", "wte.weight"},
                                         {"position_embedding", "", "wpe.weight"},
                                         {"final_norm.weight", "", "ln_f.weight"},
                                         {"final_norm.bias", "", "ln_f.bias"}}};
constexpr std::array<Rule, 12> gpt2_block{{{"attention_norm.weight", "", "ln_1.weight"},
                                           {"attention_norm.bias", "", "ln_1.bias"},
                                           {"attention.qkv", "", "attn.c_attn.weight", true},
                                           {"attention.qkv_bias", "", "attn.c_attn.bias"},
                                           {"attention.output", "", "attn.c_proj.weight", true},
                                           {"attention.output_bias", "", "attn.c_proj.bias"},
                                           {"mlp_norm.weight", "", "ln_2.weight"},
                                           {"mlp_norm.bias", "", "ln_2.bias"},
                                           {"mlp.up", "", "mlp.c_fc.weight", true},
                                           {"mlp.up_bias", "", "mlp.c_fc.bias"},
                                           {"mlp.down", "", "mlp.c_proj.weight", true},
                                           {"mlp.down_bias", "", "mlp.c_proj.bias"}}};
constexpr std::array<Rule, 2> llama_root{
    {{"token_embedding", "", "embed_tokens.weight"}, {"final_norm.weight", "", "norm.weight"}}};
constexpr std::array<Rule, 9> llama_block{{{"attention_norm.weight", "", "input_layernorm.weight"},
                                           {"attention.qkv", "query", "self_attn.q_proj.weight"},
                                           {"attention.qkv", "key", "self_attn.k_proj.weight"},
                                           {"attention.qkv", "value", "self_attn.v_proj.weight"},
                                           {"attention.output", "", "self_attn.o_proj.weight"},
                                           {"mlp_norm.weight", "", "post_attention_layernorm.weight"},
                                           {"mlp.gate_up", "gate", "mlp.gate_proj.weight"},
                                           {"mlp.gate_up", "up", "mlp.up_proj.weight"},
                                           {"mlp.down", "", "mlp.down_proj.weight"}}};

struct Style {
  std::string_view prefix;  // of everything but the head
  std::string_view layers;
  std::span<const Rule> root;
  std::span<const Rule> block;
};
constexpr Style gpt2{"transformer.", "h.", gpt2_root, gpt2_block};
constexpr Style llama{"model.", "layers.", llama_root, llama_block};
constexpr std::string_view head = "lm_head.weight";

/// Rows of a fused matrix that a block has.
Interval rows_of(const ParameterSpec& parameter, std::string_view block) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parameter.blocks.sizes.size(); ++i) {
    const std::int64_t next = first + parameter.blocks.sizes[i];
    if (parameter.blocks.axis == 0 && parameter.blocks.names[i] == block) return {first, next};
    first = next;
  }
  throw InputError(
      fmt::format("parameter '{}': has no rows '{}'; expected the fused matrix of a Llama", parameter.name, block));
}

ForeignTensor tensor_of(const ParameterSpec& parameter, const Rule& rule, std::string name) {
  ForeignTensor tensor{std::move(name), parameter.shape, parameter.name, {0, element_count(parameter.shape)}};
  tensor.transposed = rule.transposed;
  if ((rule.transposed || !rule.block.empty()) && parameter.shape.size() != 2) {
    throw InputError(
        fmt::format("parameter '{}': shape {}; expected a matrix", parameter.name, to_string(parameter.shape)));
  }
  if (rule.transposed) std::reverse(tensor.shape.begin(), tensor.shape.end());
  if (!rule.block.empty()) {
    const Interval rows = rows_of(parameter, rule.block);
    tensor.shape[0] = rows.size();
    tensor.elements = {rows.begin * parameter.shape[1], rows.end * parameter.shape[1]};
  }
  return tensor;
}

/// Adds the tensors of one parameter, or none where no rule names it.
void add_by_rules(const ParameterSpec& parameter, std::string_view local, std::span<const Rule> rules,
                  const std::string& prefix, std::vector<ForeignTensor>& tensors) {
  for (const Rule& rule : rules) {
    if (rule.ours == local) tensors.push_back(tensor_of(parameter, rule, prefix + std::string(rule.theirs)));
  }
}

/// The name within its block and the number of that: "block.7.mlp.up" is "mlp.up" of "7".
std::pair<std::string, std::string> split(const std::string& name) {
  constexpr std::string_view block = "block.";
  const std::size_t end = name.find('.', block.size());
  if (!name.starts_with(block) || end == std::string::npos) return {name, ""};
  return {name.substr(end + 1), name.substr(block.size(), end - block.size())};
}

void add_parameter(const Style& style, const ParameterSpec& parameter, std::vector<ForeignTensor>& tensors) {
  const std::size_t before = tensors.size();
  const auto [local, layer] = split(parameter.name);
  if (layer.empty()) {
    if (local == "head.weight") tensors.push_back(tensor_of(parameter, {}, std::string(head)));
    add_by_rules(parameter, local, style.root, std::string(style.prefix), tensors);
  } else {
    add_by_rules(parameter, local, style.block, fmt::format("{}{}{}.", style.prefix, style.layers, layer), tensors);
  }
  if (tensors.size() == before) {
    throw InputError(
        fmt::format("parameter '{}': has no place in Hugging Face's GPT-2 and Llama; expected a model of "
                    "mfsdp-train --model gpt2 or llama, or --names matrixfsdp",
                    parameter.name));
  }
}

class Shapes {
 public:
  Shapes(const std::vector<io::SafetensorsEntry>& tensors, std::string source) : source_(std::move(source)) {
    for (const io::SafetensorsEntry& tensor : tensors)
      shapes_.emplace(full_hugging_face_name(tensor.name), &tensor.shape);
  }

  [[nodiscard]] bool has(const std::string& name) const { return shapes_.contains(name); }

  /// An extent of a matrix that must be there.
  [[nodiscard]] std::int64_t extent(const std::string& name, std::size_t axis) const {
    const auto found = shapes_.find(name);
    if (found == shapes_.end()) {
      throw InputError(
          fmt::format("'{}': has no tensor '{}'; expected a GPT-2 or a Llama of Hugging Face", source_, name));
    }
    if (found->second->size() != 2) {
      throw InputError(
          fmt::format("'{}', tensor '{}': shape {}; expected a matrix", source_, name, to_string(*found->second)));
    }
    return (*found->second)[axis];
  }

  [[nodiscard]] std::int64_t layers(const std::string& prefix, const std::string& name) const {
    std::int64_t count = 0;
    while (has(fmt::format("{}{}.{}", prefix, count, name)))
      ++count;
    return count;
  }

 private:
  std::string source_;
  std::map<std::string, const Shape*> shapes_;
};

TransformerShape infer_gpt2(const Shapes& shapes) {
  TransformerShape shape;
  shape.style = TransformerStyle::gpt2;
  shape.vocabulary = shapes.extent("transformer.wte.weight", 0);
  shape.hidden = shapes.extent("transformer.wte.weight", 1);
  shape.sequence_length = shapes.extent("transformer.wpe.weight", 0);
  shape.layers = shapes.layers("transformer.h.", "ln_1.weight");
  shape.ffn = shapes.extent("transformer.h.0.mlp.c_fc.weight", 1);
  shape.heads = shape.kv_heads = shape.hidden % 64 == 0 ? shape.hidden / 64 : 1;
  shape.tied_head = true;  // its configuration has no other
  return shape;
}

TransformerShape infer_llama(const Shapes& shapes, const std::string& source) {
  TransformerShape shape;
  shape.style = TransformerStyle::llama;
  shape.vocabulary = shapes.extent("model.embed_tokens.weight", 0);
  shape.hidden = shapes.extent("model.embed_tokens.weight", 1);
  shape.layers = shapes.layers("model.layers.", "input_layernorm.weight");
  shape.ffn = shapes.extent("model.layers.0.mlp.gate_proj.weight", 0);
  const std::int64_t kv = shapes.extent("model.layers.0.self_attn.k_proj.weight", 0);
  if (kv < 1 || shape.hidden % kv != 0) {
    throw InputError(
        fmt::format("'{}': keys of width {} in a model of width {}; expected a divisor", source, kv, shape.hidden));
  }
  shape.heads = shape.hidden / kv;
  shape.kv_heads = 1;
  shape.tied_head = !shapes.has(std::string(head));
  return shape;
}

}  // namespace

std::vector<ForeignTensor> own_tensors(const ModelSpec& model) {
  std::vector<ForeignTensor> tensors;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      tensors.push_back({parameter.name, parameter.shape, parameter.name, {0, element_count(parameter.shape)}});
  }
  return tensors;
}

std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model) {
  bool positions = false;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      positions = positions || parameter.name == "position_embedding";
  }
  std::vector<ForeignTensor> tensors;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      add_parameter(positions ? gpt2 : llama, parameter, tensors);
  }
  return tensors;
}

bool is_hugging_face_buffer(const std::string& name) {
  return (name.find("h.") != std::string::npos && name.ends_with(".attn.bias")) ||
         name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

std::string full_hugging_face_name(const std::string& name) {
  for (const std::string_view start : {"wte.", "wpe.", "ln_f.", "h."}) {
    if (name.starts_with(start)) return std::string(gpt2.prefix) + name;
  }
  return name;
}

TransformerShape infer_transformer(const std::vector<io::SafetensorsEntry>& tensors, const std::string& source) {
  const Shapes shapes(tensors, source);
  return shapes.has("transformer.wte.weight") ? infer_gpt2(shapes) : infer_llama(shapes, source);
}

}  // namespace matrixfsdp::ckpt
