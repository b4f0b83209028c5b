#pragma once

#include <cstdint>

#include <matrixfsdp/nn/products.hpp>

#include "nn/activations.hpp"
#include "nn/unit_tensors.hpp"

/// One pre-norm block: middle = x + attention(norm(x)), y = middle + mlp(norm(middle)).
namespace matrixfsdp::nn::detail {

/// Everything that backward needs, up to the input of the activation.
template <class T>
void block_forward_kept(const PassShape& shape, std::int64_t layer, const BlockTensors<T>& weights,
                        Activations<T>& activations, Products& products);

/// The rest: activation and down projection.
template <class T>
void block_forward_output(const PassShape& shape, std::int64_t layer, const BlockTensors<T>& weights,
                          Activations<T>& activations, Products& products);

/// Turns the gradient of the block's output into that of its input, and uses up what the forward pass kept.
template <class T>
void block_backward(const PassShape& shape, std::int64_t layer, const BlockTensors<T>& weights,
                    const BlockTensors<T>& gradients, Activations<T>& activations, Products& products);

}  // namespace matrixfsdp::nn::detail
