#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/parameter/parameter_view.hpp>
#include <matrixfsdp/plan/transformer.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::nn {

/// How a Transformer runs.
struct TransformerOptions {
  std::int64_t micro_batch = 1;      ///< sequences per pass
  std::int64_t sequence_length = 0;  ///< tokens per sequence of this run; 0: the shape's
  bool recompute = false;            ///< keep only each block's input, and run its forward again in backward
  std::int64_t token_block = 256;    ///< rows of the largest (tokens, vocabulary) array
  std::int64_t query_block = 64;     ///< rows of the largest (queries, keys) array of one head
  /// What the products of weights (linear maps and head, forward and backward) of a Transformer<float> compute with. In
  /// bfloat16 their operands are rounded to nearest, one rounding each, and summed in float32; weights, gradients,
  /// activations, attention, norms and losses stay float32.
  DType compute = DType::float32;
};

/// Decoder-only transformer, forward and backward unit by unit. It holds activations, never weights: each call gets the
/// tensors of one unsharded unit, in the order of transformer_model. All sums have a fixed order, so the bits of a
/// micro-batch depend on nothing but its tokens and the weights. T is float or double.
///
/// One pass: embed, block_forward(0 .. L-1), loss_forward_backward, block_backward(L-1 .. 0), embed_backward. Every
/// call throws ContractError, and names the call, where it comes out of this order; for tensors of another number or
/// size than the unit's; and for another number of ids than micro_batch * sequence_length. Ids outside [0, vocabulary)
/// are an InputError that names position, id and limit.
template <class T>
class Transformer {
 public:
  /// Allocates everything. Throws InputError for an invalid shape (see validate), for micro_batch, token_block or
  /// query_block below 1, for a sequence_length that is not 0 and not in [1, the shape's], and for bfloat16 as Products
  /// does, or of double.
  Transformer(const TransformerShape& shape, const TransformerOptions& options);
  ~Transformer();

  /// `tokens`: micro_batch x sequence_length ids, sequence by sequence. Starts a pass anew, also where another is not
  /// finished.
  void embed(const UnitTensors<T>& root, const std::vector<std::int32_t>& tokens);
  /// Block `layer`, on what embed or the block before has left.
  void block_forward(std::int64_t layer, const UnitTensors<T>& weights);

  /// Final norm, head and cross entropy. Returns the sum over the tokens of -log p(target) in nats, in double.
  /// `targets`: like tokens. No gradients.
  double loss(const UnitTensors<T>& root, const std::vector<std::int32_t>& targets);
  /// The same sum; adds the gradient of scale * sum to `root_gradient`, and keeps the gradient of the last block's
  /// output.
  double loss_forward_backward(const UnitTensors<T>& root, UnitTensors<T>& root_gradient,
                               const std::vector<std::int32_t>& targets, T scale);
  /// Adds to `gradient`. An empty gradient tensor (frozen) is skipped.
  void block_backward(std::int64_t layer, const UnitTensors<T>& weights, UnitTensors<T>& gradient);
  /// Adds to `root_gradient`. `tokens`: those of embed (unchecked).
  void embed_backward(UnitTensors<T>& root_gradient, const std::vector<std::int32_t>& tokens);

  /// Logits of one position of each sequence after embed and all block_forward: micro_batch x vocabulary, for sampling.
  /// Later tokens do not matter, so a context shorter than the sequence may be filled up with anything. Throws
  /// ContractError for a position outside of [0, sequence_length) or a tensor of another size.
  void logits(const UnitTensors<T>& root, std::int64_t position, Tensor<T>& logits);

  /// Bytes of activations, rounded operands and scratch, all allocated by the constructor (oneDNN's own apart).
  [[nodiscard]] std::int64_t activation_bytes() const;
  /// FLOPs of matrix products done so far, recomputation apart. Recomputation are the blocks' forward passes under
  /// `recompute`, and always the attention scores, which backward computes again block by block.
  [[nodiscard]] std::int64_t product_flops() const;
  /// FLOPs of recomputation so far.
  [[nodiscard]] std::int64_t recompute_flops() const;
  /// Called between kernels, so that transfers make progress while this rank computes. May be empty.
  void set_poll(std::function<void()> poll);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp::nn
