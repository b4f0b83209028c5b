#include "nn/block.hpp"

#include <matrixfsdp/nn/activation.hpp>
#include <matrixfsdp/nn/attention.hpp>
#include <matrixfsdp/nn/linear.hpp>

#include "nn/norm.hpp"

namespace matrixfsdp::nn::detail {
namespace {

template <class T>
MatrixView<const T> matrix(const TensorView<T>& weight, std::int64_t rows, std::int64_t cols) {
  return {weight.data(), rows, cols};
}

/// Query and key heads side by side: what rotary positions turn.
template <class T>
MatrixView<T> turned(const PassShape& shape, MatrixView<T> qkv) {
  return qkv.col_block(0, (shape.attention.heads + shape.attention.kv_heads) * shape.attention.head_dimension);
}

template <class T>
void mlp_backward(const PassShape& shape, const BlockTensors<T>& w, const BlockTensors<T>& g,
                  const BlockActivations<T>& kept, Activations<T>& a, Products& products) {
  const std::int64_t hidden = shape.model.hidden;
  const MatrixView<T> gradient = a.gradient();
  const MatrixView<T> activated = a.activated();
  const MatrixView<T> inner = a.tokens_by(kept.inner, 0, shape.inner_width);
  const MatrixView<T> middle = a.tokens_by(kept.middle, 0, hidden);

  {
    const Products::Held held(products, MatrixView<const T>(gradient));
    linear_input_gradient<T>(gradient, matrix(w.down, hidden, shape.model.ffn), activated, products);
    if (shape.model.style == TransformerStyle::gpt2) {
      gelu_backward<T>(inner, activated);
    } else {
      swiglu_backward<T>(inner, activated);
    }
    linear_weight_gradient<T>(gradient, activated, g.down, g.down_bias, products);
  }

  norm_again<T>(shape, middle, w.mlp_norm, w.mlp_norm_bias, kept.mlp_norm, a.normalized());
  const Products::Held held(products, MatrixView<const T>(inner));
  linear_weight_gradient<T>(inner, a.normalized(), g.up, g.up_bias, products);
  linear_input_gradient<T>(inner, matrix(w.up, shape.inner_width, hidden), a.narrow_gradient(), products);
  norm_backward<T>(shape, middle, w.mlp_norm, kept.mlp_norm, a.narrow_gradient(), gradient, gradient, g.mlp_norm,
                   g.mlp_norm_bias);
  products.poll();
}

}  // namespace

template <class T>
void block_forward_kept(const PassShape& shape, std::int64_t layer, const BlockTensors<T>& w, Activations<T>& a,
                        Products& products) {
  const std::int64_t hidden = shape.model.hidden;
  const std::int64_t qkv_width = shape.attention.qkv_width();
  const BlockActivations<T>& kept = a.block(layer);
  const MatrixView<T> x = a.stream(layer);
  const MatrixView<T> qkv = a.tokens_by(kept.qkv, 0, qkv_width);
  const MatrixView<T> attention = a.tokens_by(kept.attention, 0, hidden);
  const MatrixView<T> middle = a.tokens_by(kept.middle, 0, hidden);

  norm_forward<T>(shape, x, w.attention_norm, w.attention_norm_bias, kept.attention_norm, a.normalized());
  linear_forward<T>(a.normalized(), matrix(w.qkv, qkv_width, hidden), w.qkv_bias, qkv, products);
  if (a.rotary) a.rotary->forward(turned(shape, qkv));
  attention_forward<T>(shape.attention, qkv, attention, kept.log_sum, a.attention_scratch, products);
  linear_residual_forward<T>(attention, matrix(w.output, hidden, hidden), w.output_bias, x, middle, products);

  norm_forward<T>(shape, middle, w.mlp_norm, w.mlp_norm_bias, kept.mlp_norm, a.normalized());
  linear_forward<T>(a.normalized(), matrix(w.up, shape.inner_width, hidden), w.up_bias,
                    a.tokens_by(kept.inner, 0, shape.inner_width), products);
}

template <class T>
void block_forward_output(const PassShape& shape, std::int64_t layer, const BlockTensors<T>& w, Activations<T>& a,
                          Products& products) {
  const BlockActivations<T>& kept = a.block(layer);
  const MatrixView<T> inner = a.tokens_by(kept.inner, 0, shape.inner_width);
  if (shape.model.style == TransformerStyle::gpt2) {
    gelu_forward<T>(inner, a.activated());
  } else {
    swiglu_forward<T>(inner, a.activated());
  }
  products.poll();
  linear_residual_forward<T>(a.activated(), matrix(w.down, shape.model.hidden, shape.model.ffn), w.down_bias,
                             a.tokens_by(kept.middle, 0, shape.model.hidden), a.stream(layer + 1), products);
}

template <class T>
void block_backward(const PassShape& shape, std::int64_t layer, const BlockTensors<T>& w, const BlockTensors<T>& g,
                    Activations<T>& a, Products& products) {
  const std::int64_t hidden = shape.model.hidden;
  const std::int64_t qkv_width = shape.attention.qkv_width();
  const BlockActivations<T>& kept = a.block(layer);
  const MatrixView<T> x = a.stream(layer);
  const MatrixView<T> gradient = a.gradient();
  const MatrixView<T> attention = a.tokens_by(kept.attention, 0, hidden);

  mlp_backward(shape, w, g, kept, a, products);

  {
    const Products::Held held(products, MatrixView<const T>(gradient));
    linear_weight_gradient<T>(gradient, attention, g.output, g.output_bias, products);
    linear_input_gradient<T>(gradient, matrix(w.output, hidden, hidden), a.narrow_gradient(), products);
  }
  attention_backward<T>(shape.attention, a.tokens_by(kept.qkv, 0, qkv_width), attention, kept.log_sum,
                        a.narrow_gradient(), a.qkv_gradient(), a.delta, a.attention_scratch, products);
  if (a.rotary) a.rotary->backward(turned(shape, a.qkv_gradient()));

  norm_again<T>(shape, x, w.attention_norm, w.attention_norm_bias, kept.attention_norm, a.normalized());
  const Products::Held held(products, MatrixView<const T>(a.qkv_gradient()));
  linear_weight_gradient<T>(a.qkv_gradient(), a.normalized(), g.qkv, g.qkv_bias, products);
  linear_input_gradient<T>(a.qkv_gradient(), matrix(w.qkv, qkv_width, hidden), a.narrow_gradient(), products);
  norm_backward<T>(shape, x, w.attention_norm, kept.attention_norm, a.narrow_gradient(), gradient, gradient,
                   g.attention_norm, g.attention_norm_bias);
  products.poll();
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                                 \
  template void block_forward_kept<T>(const PassShape&, std::int64_t, const BlockTensors<T>&, Activations<T>&,    \
                                      Products&);                                                                 \
  template void block_forward_output<T>(const PassShape&, std::int64_t, const BlockTensors<T>&, Activations<T>&,  \
                                        Products&);                                                               \
  template void block_backward<T>(const PassShape&, std::int64_t, const BlockTensors<T>&, const BlockTensors<T>&, \
                                  Activations<T>&, Products&);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn::detail
