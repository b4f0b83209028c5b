#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <matrixfsdp/plan/transformer.hpp>

/// The model's formulas in plain loops over double, one token after another, with weights found by name: the oracle.
/// Uses nothing of linalg or nn.
namespace matrixfsdp::reference {

using Vector = std::vector<double>;
using NamedWeights = std::map<std::string, Vector>;

/// W x + b; an empty b is none.
inline Vector linear(const Vector& weight, const Vector& bias, const Vector& x) {
  Vector y(weight.size() / x.size(), 0.0);
  for (std::size_t o = 0; o < y.size(); ++o) {
    for (std::size_t i = 0; i < x.size(); ++i)
      y[o] += weight[o * x.size() + i] * x[i];
    if (!bias.empty()) y[o] += bias[o];
  }
  return y;
}

/// LayerNorm with a bias, RMSNorm without.
inline Vector norm(const Vector& x, const Vector& weight, const Vector& bias) {
  const auto n = static_cast<double>(x.size());
  double mean = 0.0;
  for (const double v : x)
    mean += bias.empty() ? 0.0 : v / n;
  double variance = 0.0;
  for (const double v : x)
    variance += (v - mean) * (v - mean) / n;
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + (bias.empty() ? 0.0 : bias[i]);
  return y;
}

inline double gelu(double x) {
  const double pi = std::acos(-1.0);
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / pi) * (x + 0.044715 * std::pow(x, 3.0))));
}

inline double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

/// Elements i and i + D/2 of the head are the real and imaginary part of a number that is turned.
inline void rotate(double* head, std::size_t dimension, std::size_t position) {
  const std::size_t half = dimension / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double frequency = 1.0 / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(dimension));
    const double angle = static_cast<double>(position) * frequency;
    const double re = head[i];
    const double im = head[i + half];
    head[i] = re * std::cos(angle) - im * std::sin(angle);
    head[i + half] = re * std::sin(angle) + im * std::cos(angle);
  }
}

/// softmax(q k^T / sqrt(d)) v of the last of the given tokens, each given as its query, key and value side by side.
inline Vector causal_attention(const std::vector<Vector>& qkv, std::size_t heads, std::size_t kv_heads, std::size_t d) {
  const Vector& last = qkv.back();
  Vector result(heads * d, 0.0);
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t group = h / (heads / kv_heads);
    Vector p(qkv.size(), 0.0);
    double sum = 0.0;
    for (std::size_t t = 0; t < qkv.size(); ++t) {
      double score = 0.0;
      for (std::size_t i = 0; i < d; ++i)
        score += last[h * d + i] * qkv[t][(heads + group) * d + i];
      p[t] = std::exp(score / std::sqrt(static_cast<double>(d)));
      sum += p[t];
    }
    for (std::size_t t = 0; t < qkv.size(); ++t) {
      for (std::size_t i = 0; i < d; ++i)
        result[h * d + i] += p[t] / sum * qkv[t][(heads + kv_heads + group) * d + i];
    }
  }
  return result;
}

inline Vector plus(const Vector& a, const Vector& b) {
  Vector sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    sum[i] = a[i] + b[i];
  return sum;
}

/// Logits of every position of one sequence.
inline std::vector<Vector> logits(const TransformerShape& shape, NamedWeights w,
                                  const std::vector<std::int32_t>& sequence) {
  const bool gpt2 = shape.style == TransformerStyle::gpt2;
  const auto hidden = static_cast<std::size_t>(shape.hidden);
  const auto d = static_cast<std::size_t>(shape.head_dimension());
  const auto heads = static_cast<std::size_t>(shape.heads);
  const auto kv_heads = static_cast<std::size_t>(shape.kv_heads);
  const auto ffn = static_cast<std::size_t>(shape.ffn);
  std::vector<Vector> x;
  for (std::size_t t = 0; t < sequence.size(); ++t) {
    const auto id = static_cast<std::size_t>(sequence[t]);
    Vector row(hidden);
    for (std::size_t i = 0; i < hidden; ++i)
      row[i] = w["token_embedding"][id * hidden + i] + (gpt2 ? w["position_embedding"][t * hidden + i] : 0.0);
    x.push_back(row);
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = "block." + std::to_string(layer) + ".";
    std::vector<Vector> qkv;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector normalized = norm(x[t], w[block + "attention_norm.weight"], w[block + "attention_norm.bias"]);
      qkv.push_back(linear(w[block + "attention.qkv"], w[block + "attention.qkv_bias"], normalized));
      for (std::size_t h = 0; !gpt2 && h < heads + kv_heads; ++h)
        rotate(qkv[t].data() + h * d, d, t);
      const Vector attention = causal_attention(qkv, heads, kv_heads, d);
      x[t] = plus(x[t], linear(w[block + "attention.output"], w[block + "attention.output_bias"], attention));
    }
    for (Vector& row : x) {
      const Vector normalized = norm(row, w[block + "mlp_norm.weight"], w[block + "mlp_norm.bias"]);
      Vector inner(ffn);
      if (gpt2) {
        const Vector up = linear(w[block + "mlp.up"], w[block + "mlp.up_bias"], normalized);
        for (std::size_t i = 0; i < ffn; ++i)
          inner[i] = gelu(up[i]);
      } else {
        const Vector gate_up = linear(w[block + "mlp.gate_up"], {}, normalized);
        for (std::size_t i = 0; i < ffn; ++i)
          inner[i] = silu(gate_up[i]) * gate_up[ffn + i];
      }
      row = plus(row, linear(w[block + "mlp.down"], w[block + "mlp.down_bias"], inner));
    }
  }
  std::vector<Vector> result;
  for (const Vector& row : x) {
    const Vector normalized = norm(row, w["final_norm.weight"], w["final_norm.bias"]);
    result.push_back(linear(w[shape.tied_head ? "token_embedding" : "head.weight"], {}, normalized));
  }
  return result;
}

inline double minus_log_probability(const Vector& row, std::int32_t target) {
  double sum = 0.0;
  for (const double v : row)
    sum += std::exp(v);
  return std::log(sum) - row[static_cast<std::size_t>(target)];
}

/// Sum over all tokens of all sequences.
inline double loss(const TransformerShape& shape, const NamedWeights& weights, std::int64_t sequence_length,
                   const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& targets) {
  double sum = 0.0;
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(sequence_length)) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto rows = logits(shape, weights, {first, first + sequence_length});
    for (std::size_t t = 0; t < rows.size(); ++t)
      sum += minus_log_probability(rows[t], targets[begin + t]);
  }
  return sum;
}

}  // namespace matrixfsdp::reference
