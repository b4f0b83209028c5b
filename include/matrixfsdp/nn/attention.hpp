#pragma once

#include <cstdint>

#include <matrixfsdp/nn/products.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// What is unchecked, and what T is: see activation.hpp.
namespace matrixfsdp::nn {

/// All extents are positive, and kv_heads divides heads: attention_forward and attention_backward throw ContractError
/// otherwise.
struct AttentionShape {
  std::int64_t sequences = 1;        ///< of a pass
  std::int64_t sequence_length = 0;  ///< tokens of each
  std::int64_t heads = 1;            ///< query heads
  std::int64_t kv_heads = 1;         ///< divides heads; query head h uses key and value head h / (heads / kv_heads)
  std::int64_t head_dimension = 0;   ///< columns of a head
  std::int64_t query_block = 64;     ///< queries that are worked on together

  /// Of all sequences together.
  [[nodiscard]] std::int64_t tokens() const { return sequences * sequence_length; }
  /// Columns of query, key and value side by side.
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dimension; }
  /// Elements of the scratch of forward and backward: two arrays (query_block, sequence_length).
  [[nodiscard]] std::int64_t scratch_elements() const;
};

/// Causal attention, softmax(q k^T / sqrt(head_dimension)) v, head by head and query block by query block against the
/// keys up to the end of the block: no array (heads, tokens, tokens) exists. `qkv` is tokens x qkv_width, `out` tokens
/// x heads * head_dimension. `log_sum` (sequences * heads * sequence_length) keeps the log of each row's sum of
/// exponentials. `scratch` holds scratch_elements(). (Vaswani et al. 2017, section 3.2.1; query groups: Ainslie et al.
/// 2023.)
template <class T>
void attention_forward(const AttentionShape& shape, MatrixView<const std::type_identity_t<T>> qkv,
                       MatrixView<std::type_identity_t<T>> out, TensorView<T> log_sum, TensorView<T> scratch,
                       Products& products);

/// Computes the probabilities of each block again (recomputation in the FLOP count) and overwrites `dqkv`. `qkv`, `out`
/// and `log_sum` are those of the forward pass, `dout` is like out, `dqkv` like qkv; `delta`: scratch like log_sum.
/// (Dao 2023, FlashAttention-2, section 3.1.2, has the formulas.)
template <class T>
void attention_backward(const AttentionShape& shape, MatrixView<const std::type_identity_t<T>> qkv,
                        MatrixView<const std::type_identity_t<T>> out, TensorView<T> log_sum,
                        MatrixView<const std::type_identity_t<T>> dout, MatrixView<std::type_identity_t<T>> dqkv,
                        TensorView<T> delta, TensorView<T> scratch, Products& products);

}  // namespace matrixfsdp::nn
