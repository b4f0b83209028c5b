#include <algorithm>

#include <matrixfsdp/plan/time_model.hpp>

namespace matrixfsdp {
namespace {

/// Bytes of the arrays of a float32 pass that have a row for each token: those of nn, but for the ones with a number
/// for each head or norm, and for the block of logits.
std::int64_t activation_bytes(const TransformerShape& shape, std::int64_t tokens, bool recompute) {
  const std::int64_t qkv = shape.hidden + 2 * shape.kv_heads * shape.head_dimension();
  const std::int64_t inner = (shape.style == TransformerStyle::gpt2 ? 1 : 2) * shape.ffn;
  const std::int64_t stream = (shape.layers + 1) * shape.hidden;
  const std::int64_t kept = (recompute ? 1 : shape.layers) * (qkv + 2 * shape.hidden + inner);
  const std::int64_t scratch = 3 * shape.hidden + std::max(shape.ffn, qkv);
  return static_cast<std::int64_t>(sizeof(float)) * tokens * (stream + kept + scratch);
}

}  // namespace

PassWork transformer_pass(const TransformerShape& shape, std::int64_t sequences, bool recompute, DType compute) {
  const std::int64_t length = shape.sequence_length;
  const std::int64_t tokens = sequences * length;
  const std::int64_t whole = forward_product_flops(shape, tokens, length);
  PassWork pass;
  pass.unit_flops.assign(static_cast<std::size_t>(shape.layers) + 1, block_product_flops(shape, tokens, length));
  pass.unit_flops.front() = 0;  // the root looks embeddings up
  pass.last_flops = whole - shape.layers * pass.unit_flops.back();
  pass.activation_bytes = activation_bytes(shape, tokens, recompute);
  if (compute == DType::bfloat16) {
    for (const std::int64_t elements : rounded_operand_elements(shape, tokens, 0))
      pass.activation_bytes += 2 * elements;
  }
  return pass;
}

}  // namespace matrixfsdp
