#pragma once

#include <matrixfsdp/parameter/parameter_view.hpp>
#include <matrixfsdp/plan/transformer.hpp>

namespace matrixfsdp::nn::detail {

/// Parameters of a block (or their gradients) by role; what the style does not have stays empty.
template <class T>
struct BlockTensors {
  TensorView<T> attention_norm;
  TensorView<T> attention_norm_bias;
  TensorView<T> qkv;
  TensorView<T> qkv_bias;
  TensorView<T> output;
  TensorView<T> output_bias;
  TensorView<T> mlp_norm;
  TensorView<T> mlp_norm_bias;
  TensorView<T> up;  ///< of llama: gate, then up
  TensorView<T> up_bias;
  TensorView<T> down;
  TensorView<T> down_bias;

  BlockTensors(const TransformerShape& shape, const UnitTensors<T>& tensors);
};

/// Parameters of the root (or their gradients) by role.
template <class T>
struct RootTensors {
  TensorView<T> token_embedding;
  TensorView<T> position_embedding;
  TensorView<T> final_norm;
  TensorView<T> final_norm_bias;
  TensorView<T> head;  ///< tied: token_embedding

  RootTensors(const TransformerShape& shape, const UnitTensors<T>& tensors);
};

enum class TensorRole { weight, gradient };

/// Throws ContractError, with the names, unless `tensors` are those of `unit`: their number, and the size of each (or
/// none at all for a gradient).
template <class T>
void check_unit(const UnitSpec& unit, const UnitTensors<T>& tensors, TensorRole role);

}  // namespace matrixfsdp::nn::detail
