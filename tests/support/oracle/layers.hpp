#pragma once

#include "support/oracle/tensor.hpp"

/// Layers of one sequence: rows are tokens. Each backward adds to the gradients of its parameters and returns the
/// gradient of its input.
namespace oracle {

/// y = x W^T + b, W (out, in).
Matrix linear(const Matrix& x, const Tensor& weight, const Tensor* bias);
Matrix linear_backward(const Matrix& x, const Tensor& weight, const Matrix& dy, Tensor& weight_gradient,
                       Tensor* bias_gradient);

/// With a bias LayerNorm: (x - mean) / sqrt(variance + 1e-5) w + b; without one RMSNorm: x / sqrt(mean of x^2 + 1e-5)
/// w.
Matrix norm(const Matrix& x, const Tensor& weight, const Tensor* bias);
Matrix norm_backward(const Matrix& x, const Tensor& weight, const Matrix& dy, Tensor& weight_gradient,
                     Tensor* bias_gradient);

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), and its derivative.
double gelu(double x);
double gelu_slope(double x);

/// x / (1 + exp(-x)), and its derivative.
double silu(double x);
double silu_slope(double x);

/// Rotary positions, base 10000, on `heads` heads of `dimension` columns each, from column `first`: components i and
/// i + dimension / 2 of a head turn by row * 10000^(-2 i / dimension). `direction` -1 turns back.
void rotate(Matrix& x, std::size_t first, std::size_t heads, std::size_t dimension, double direction);

/// Heads in columns of `qkv`: `heads` query heads, then `kv_heads` key heads, then `kv_heads` value heads. Query head h
/// reads key and value head h / (heads / kv_heads).
struct Heads {
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t dimension;
};

/// Causal softmax(q k^T / sqrt(dimension)) v; columns by query head.
Matrix attention(const Matrix& qkv, const Heads& heads);
Matrix attention_backward(const Matrix& qkv, const Heads& heads, const Matrix& dy);

}  // namespace oracle
