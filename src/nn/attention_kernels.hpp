#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

#include "nn/fast_math.hpp"
#include "nn/row_kernel.hpp"

/// Row i of a block of queries sees the keys [0, first + i]; later columns of the block are set to zero.
namespace matrixfsdp::nn::detail {

/// Scores become probabilities; log_sum(i) = log of the sum of exp(score) of row i.
template <class T>
void causal_softmax(MatrixView<T> scores, std::int64_t first, T* log_sum) {
  for_rows(
      "matrixfsdp::nn::causal_softmax", scores.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        T* const s = scores.data + r * scores.stride;
        const std::int64_t seen = first + r + 1;
        const T largest = row.template maximum<T>(seen, s[0], [&](std::int64_t i) { return s[i]; });
        const double sum = row.template sum<T>(seen, [&](std::int64_t i) {
          const T e = exponential(s[i] - largest);
          s[i] = e;
          return e;
        });
        const T inverse = static_cast<T>(1.0 / sum);
        row.for_each(seen, [&](std::int64_t i) { s[i] *= inverse; });
        row.for_each(scores.cols - seen, [&](std::int64_t i) { s[seen + i] = T{0}; });
        row.once([&]() { log_sum[r] = static_cast<T>(static_cast<double>(largest) + ::log(sum)); });
      });
}

/// Scores become probabilities p again, and the gradients dp of the probabilities those of the scores: p (dp - delta).
template <class T>
void causal_softmax_backward(MatrixView<T> scores, MatrixView<T> gradients, std::int64_t first, const T* log_sum,
                             const T* delta) {
  for_rows(
      "matrixfsdp::nn::causal_softmax_backward", scores.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        T* const s = scores.data + r * scores.stride;
        T* const g = gradients.data + r * gradients.stride;
        const std::int64_t seen = first + r + 1;
        const T shift = log_sum[r];
        const T mean = delta[r];
        row.for_each(seen, [&](std::int64_t i) {
          const T p = exponential(s[i] - shift);
          s[i] = p;
          g[i] = p * (g[i] - mean);
        });
        row.for_each(scores.cols - seen, [&](std::int64_t i) {
          s[seen + i] = T{0};
          g[seen + i] = T{0};
        });
      });
}

/// delta(sequence, head, position) = dot(dout, out) of that token and head: the mean of the gradients of its
/// probabilities, weighted with them.
template <class T>
void attention_delta(MatrixView<const T> out, MatrixView<const T> dout, std::int64_t sequence_length,
                     std::int64_t head_dimension, T* delta) {
  const std::int64_t heads = out.cols / head_dimension;
  for_rows(
      "matrixfsdp::nn::attention_delta", out.rows * heads, KOKKOS_LAMBDA(const Row& row, const std::int64_t index) {
        const std::int64_t token = index / heads;
        const std::int64_t head = index % heads;
        const T* const a = out.data + token * out.stride + head * head_dimension;
        const T* const b = dout.data + token * dout.stride + head * head_dimension;
        const double dot = row.template sum<T>(head_dimension, [&](std::int64_t i) { return a[i] * b[i]; });
        const std::int64_t sequence = token / sequence_length;
        const std::int64_t position = token % sequence_length;
        row.once([&]() { delta[(sequence * heads + head) * sequence_length + position] = static_cast<T>(dot); });
      });
}

}  // namespace matrixfsdp::nn::detail
