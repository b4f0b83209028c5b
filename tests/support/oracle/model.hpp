#pragma once

#include <utility>

#include "support/oracle/tensor.hpp"

namespace oracle {

enum class Style { gpt2, llama };

/// Extents of a decoder-only transformer. gpt2: LayerNorm, tanh GELU, learned positions, biases. llama: RMSNorm, rotary
/// positions, SwiGLU, grouped-query attention, no biases.
struct Model {
  Style style = Style::gpt2;
  std::size_t layers = 2;
  std::size_t hidden = 32;
  std::size_t heads = 4;
  std::size_t kv_heads = 4;
  std::size_t ffn = 64;
  std::size_t sequence_length = 16;
  std::size_t vocabulary = 64;
  bool tied_head = true;

  [[nodiscard]] std::size_t head_dimension() const { return hidden / heads; }
  [[nodiscard]] std::size_t kv_width() const { return kv_heads * head_dimension(); }
};

/// What a parameter is for.
enum class Role { embedding, head, vector, linear };

struct ParameterInfo {
  std::string name;
  std::vector<std::size_t> shape;
  Role role = Role::vector;
  std::vector<std::size_t> row_blocks;  ///< of a fused linear map; one block for any other
};

/// All parameters in canonical order; (out, in) for linear maps. A tied head has no entry of its own.
std::vector<ParameterInfo> parameter_list(const Model& model);

}  // namespace oracle
