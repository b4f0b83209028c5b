#include <cmath>

#include "support/oracle/layers.hpp"

namespace oracle {
namespace {

struct Columns {
  std::size_t query;
  std::size_t key;
  std::size_t value;
};

Columns columns_of(const Heads& heads, std::size_t head) {
  const std::size_t kv_head = head / (heads.heads / heads.kv_heads);
  return {head * heads.dimension, (heads.heads + kv_head) * heads.dimension,
          (heads.heads + heads.kv_heads + kv_head) * heads.dimension};
}

/// Weights of row `t` on rows 0 .. t.
std::vector<double> probabilities(const Matrix& qkv, const Heads& heads, const Columns& at, std::size_t t) {
  std::vector<double> p(t + 1);
  double largest = -INFINITY;
  for (std::size_t s = 0; s <= t; ++s) {
    double score = 0.0;
    for (std::size_t i = 0; i < heads.dimension; ++i)
      score += qkv(t, at.query + i) * qkv(s, at.key + i);
    p[s] = score / std::sqrt(static_cast<double>(heads.dimension));
    largest = std::fmax(largest, p[s]);
  }
  double sum = 0.0;
  for (double& value : p) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (double& value : p)
    value /= sum;
  return p;
}

}  // namespace

Matrix attention(const Matrix& qkv, const Heads& heads) {
  Matrix y(qkv.rows, heads.heads * heads.dimension);
  for (std::size_t head = 0; head < heads.heads; ++head) {
    const Columns at = columns_of(heads, head);
    for (std::size_t t = 0; t < qkv.rows; ++t) {
      const std::vector<double> p = probabilities(qkv, heads, at, t);
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t i = 0; i < heads.dimension; ++i)
          y(t, at.query + i) += p[s] * qkv(s, at.value + i);
      }
    }
  }
  return y;
}

Matrix attention_backward(const Matrix& qkv, const Heads& heads, const Matrix& dy) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(heads.dimension));
  Matrix d(qkv.rows, qkv.cols);
  for (std::size_t head = 0; head < heads.heads; ++head) {
    const Columns at = columns_of(heads, head);
    for (std::size_t t = 0; t < qkv.rows; ++t) {
      const std::vector<double> p = probabilities(qkv, heads, at, t);
      std::vector<double> dp(t + 1, 0.0);
      double mean = 0.0;
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t i = 0; i < heads.dimension; ++i) {
          dp[s] += dy(t, at.query + i) * qkv(s, at.value + i);
          d(s, at.value + i) += p[s] * dy(t, at.query + i);
        }
        mean += p[s] * dp[s];
      }
      for (std::size_t s = 0; s <= t; ++s) {
        const double dscore = p[s] * (dp[s] - mean) * scale;
        for (std::size_t i = 0; i < heads.dimension; ++i) {
          d(t, at.query + i) += dscore * qkv(s, at.key + i);
          d(s, at.key + i) += dscore * qkv(t, at.query + i);
        }
      }
    }
  }
  return d;
}

}  // namespace oracle
