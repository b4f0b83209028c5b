#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/nn/attention.hpp>
#include <matrixfsdp/nn/rotary.hpp>
#include <matrixfsdp/nn/transformer.hpp>

namespace matrixfsdp::nn::detail {

/// Extents of one pass.
struct PassShape {
  TransformerShape model;
  AttentionShape attention;
  std::int64_t tokens = 0;
  std::int64_t token_block = 0;  ///< no more than tokens
  std::int64_t inner_width = 0;  ///< columns before the activation: ffn, or 2 ffn (gate and up)
  bool with_mean = false;        ///< LayerNorm; else RMSNorm

  /// Throws InputError for extents that make no sense.
  PassShape(const TransformerShape& shape, const TransformerOptions& options);
};

/// Mean (LayerNorm only) and inverse deviation of each token.
template <class T>
struct NormActivations {
  Tensor<T> mean;
  Tensor<T> inverse;
};

/// What the backward pass of a block needs besides its input.
template <class T>
struct BlockActivations {
  NormActivations<T> attention_norm;
  Tensor<T> qkv;        // tokens x qkv width, rotary positions applied
  Tensor<T> log_sum;    // sequences x heads x sequence length
  Tensor<T> attention;  // tokens x hidden: the heads' results
  Tensor<T> middle;     // tokens x hidden: after the attention's residual sum
  NormActivations<T> mlp_norm;
  Tensor<T> inner;  // tokens x inner width, before the activation; its gradient afterwards
};

/// All memory of a Transformer.
template <class T>
class Activations {
 public:
  Activations(const PassShape& shape, bool recompute);

  /// Input of block `layer`; of layer L: what the last block gave.
  [[nodiscard]] MatrixView<T> stream(std::int64_t layer) const {
    return tokens_by(stream_, layer, shape_.model.hidden);
  }
  [[nodiscard]] BlockActivations<T>& block(std::int64_t layer) {
    return blocks_[blocks_.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
  }
  /// The gradient that flows down: of the output of the block below.
  [[nodiscard]] MatrixView<T> gradient() const { return tokens_by(gradient_, 0, shape_.model.hidden); }
  /// Scratch, tokens x hidden, twice.
  [[nodiscard]] MatrixView<T> normalized() const { return tokens_by(normalized_, 0, shape_.model.hidden); }
  [[nodiscard]] MatrixView<T> narrow_gradient() const { return tokens_by(narrow_gradient_, 0, shape_.model.hidden); }
  /// Scratch that is the activated inner part, the gradient of qkv, or a block of logits.
  [[nodiscard]] MatrixView<T> activated() const { return tokens_by(wide_, 0, shape_.model.ffn); }
  [[nodiscard]] MatrixView<T> qkv_gradient() const { return tokens_by(wide_, 0, shape_.attention.qkv_width()); }
  [[nodiscard]] TensorView<T> logits() const { return slice(wide_, 0, shape_.token_block * shape_.model.vocabulary); }

  [[nodiscard]] MatrixView<T> tokens_by(const Tensor<T>& tensor, std::int64_t index, std::int64_t width) const {
    return {tensor.data() + index * shape_.tokens * width, shape_.tokens, width};
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  NormActivations<T> final_norm;
  std::optional<Rotary<T>> rotary;  // of llama
  Tensor<T> delta;                  // sequences x heads x sequence length
  Tensor<T> attention_scratch;
  Tensor<std::int32_t> tokens;
  Tensor<std::int32_t> targets;
  Tensor<double> losses;

 private:
  template <class U>
  Tensor<U> allocate(const std::string& name, std::int64_t count);
  NormActivations<T> allocate_norm(const std::string& name);

  PassShape shape_;
  std::int64_t bytes_ = 0;
  std::vector<BlockActivations<T>> blocks_;
  Tensor<T> stream_;  // layers + 1
  Tensor<T> gradient_;
  Tensor<T> normalized_;
  Tensor<T> narrow_gradient_;
  Tensor<T> wide_;
};

}  // namespace matrixfsdp::nn::detail
