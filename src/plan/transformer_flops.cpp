#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/transformer.hpp>

namespace matrixfsdp {
namespace {

/// Query i meets keys 0 .. i: s (s + 1) / 2 pairs, and each pair costs a product of `hidden` multiply-adds (over all
/// heads) for its score and another for its value.
std::int64_t attention_flops(const TransformerShape& shape, std::int64_t sequence) {
  return 2 * sequence * (sequence + 1) * shape.hidden;
}

}  // namespace

// A linear map of `in` x `out` costs 2 in out per token.
std::int64_t block_product_flops(const TransformerShape& shape, std::int64_t tokens, std::int64_t sequence_length) {
  validate(shape);
  if (tokens < 0 || sequence_length < 1) {
    throw ContractError(fmt::format("product FLOPs of {} tokens in sequences of {}, expected at least 0 and at least 1",
                                    tokens, sequence_length));
  }
  const std::int64_t hidden = shape.hidden;
  const std::int64_t kv = shape.kv_heads * shape.head_dimension();
  const std::int64_t feed_forward = (shape.style == TransformerStyle::gpt2 ? 2 : 3) * hidden * shape.ffn;
  const std::int64_t linear = hidden * (hidden + 2 * kv) + hidden * hidden + feed_forward;
  const std::int64_t attention = tokens / sequence_length * attention_flops(shape, sequence_length) +
                                 attention_flops(shape, tokens % sequence_length);
  return 2 * tokens * linear + attention;
}

std::int64_t forward_product_flops(const TransformerShape& shape, std::int64_t tokens, std::int64_t sequence_length) {
  return shape.layers * block_product_flops(shape, tokens, sequence_length) +
         2 * tokens * shape.hidden * shape.vocabulary;
}

std::array<std::int64_t, 4> rounded_operand_elements(const TransformerShape& shape, std::int64_t tokens,
                                                     std::int64_t token_block) {
  const std::int64_t hidden = shape.hidden;
  const std::int64_t qkv = hidden + 2 * shape.kv_heads * shape.head_dimension();
  const std::int64_t inner = (shape.style == TransformerStyle::gpt2 ? 1 : 2) * shape.ffn;
  const std::int64_t widest = std::max({hidden, qkv, inner, shape.ffn});
  const std::int64_t input = tokens * std::max(hidden, shape.ffn);
  return {input, std::max(input, hidden * widest), std::max(shape.vocabulary * hidden, tokens * widest),
          token_block * shape.vocabulary};
}

}  // namespace matrixfsdp
