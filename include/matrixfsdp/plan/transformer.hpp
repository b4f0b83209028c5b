#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp {

/// Families of decoder-only transformers.
enum class TransformerStyle {
  gpt2,   ///< LayerNorm, GELU, learned positions, biases, tied head
  llama,  ///< RMSNorm, rotary positions, SwiGLU, grouped-query attention, no biases, untied head
};

/// "gpt2" or "llama". Unchecked: a value of the enumeration.
std::string_view name_of(TransformerStyle style);

/// Extents of a decoder-only transformer.
struct TransformerShape {
  TransformerStyle style = TransformerStyle::gpt2;  ///< of every block
  std::int64_t layers = 12;                         ///< blocks
  std::int64_t hidden = 768;                        ///< width of the stream between blocks
  std::int64_t heads = 12;                          ///< of attention: query heads
  std::int64_t kv_heads = 12;                       ///< of llama; equals heads for gpt2
  std::int64_t ffn = 3072;                          ///< inner width of the feed-forward part
  std::int64_t sequence_length = 1024;              ///< the longest, in tokens; rows of gpt2's position table
  std::int64_t vocabulary = 50257;                  ///< token ids
  bool tied_head = true;                            ///< the head's weight is the token embedding

  /// Width of a head: hidden / heads.
  [[nodiscard]] std::int64_t head_dimension() const { return hidden / heads; }
};

/// Throws InputError unless all extents are positive and less than 2^31, heads divide hidden, kv_heads divide heads,
/// and (llama) the head dimension is even, (gpt2) kv_heads equal heads.
void validate(const TransformerShape& shape);

/// Catalogue: "gpt2:d12" (depth d: hidden 64 d, heads d), "gpt2:124m", "gpt2:350m", "gpt2:774m", "gpt2:1.5b",
/// "llama:d12" (same rule; ffn 8/3 of hidden, heads / 4 kv heads where that divides), "llama:1b" (3.2, tied head as
/// released), "llama:8b", "llama:70b" (3). Throws InputError that lists the names.
TransformerShape transformer_from_name(std::string_view name);

/// Names the catalogue offers, for --help: each is accepted by transformer_from_name, and so is any depth for d12.
std::vector<std::string> transformer_names();

/// Units: "root", then "block.0" ... . Names and order are fixed: checkpoints and nn rely on them.
///   root
///     token_embedding (V, H)
///     position_embedding (T, H)               gpt2
///     final_norm.weight (H)
///     final_norm.bias (H)                     gpt2
///     head.weight (V, H)                      untied: a tail by override; tied: a second name of token_embedding
///   block.I, each name after "block.I."
///     attention_norm.weight (H)
///     attention_norm.bias (H)                 gpt2
///     attention.qkv (H + 2 KV, H)             row blocks query, key, value; KV = kv_heads * head dimension
///     attention.qkv_bias (H + 2 KV)           gpt2
///     attention.output (H, H)
///     attention.output_bias (H)               gpt2
///     mlp_norm.weight (H)
///     mlp_norm.bias (H)                       gpt2
///     mlp.up (F, H)                           gpt2
///     mlp.up_bias (F)                         gpt2
///     mlp.gate_up (2 F, H)                    llama; row blocks gate, up
///     mlp.down (H, F)
///     mlp.down_bias (H)                       gpt2
/// Initialization: normal 0.02; residual projections (attention.output, mlp.down) normal 0.02 / sqrt(2 layers) (GPT-2,
/// Radford et al. 2019, section 2.3); norms ones; biases zeros. Throws InputError for an invalid shape (see validate).
ModelSpec transformer_model(const TransformerShape& shape);

/// FLOPs (a multiply-add is 2) of the matrix products of one forward pass over `tokens` tokens in sequences of
/// `sequence_length` (attention counted causal, without the masked half; head included). Backward is twice that;
/// recomputation is not counted. Throws InputError for an invalid shape, ContractError unless tokens >= 0 and
/// sequence_length >= 1.
std::int64_t forward_product_flops(const TransformerShape& shape, std::int64_t tokens, std::int64_t sequence_length);

/// Most elements of the rounded copies that a pass in bfloat16 keeps of its products' operands: a left and a right one
/// of a single product, and two that several products share (the head's weight or a gradient; the gradient of a block
/// of logits). `token_block` is that of nn::TransformerOptions.
std::array<std::int64_t, 4> rounded_operand_elements(const TransformerShape& shape, std::int64_t tokens,
                                                     std::int64_t token_block);

/// Of one block alone. Throws as forward_product_flops.
std::int64_t block_product_flops(const TransformerShape& shape, std::int64_t tokens, std::int64_t sequence_length);

}  // namespace matrixfsdp
