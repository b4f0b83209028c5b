#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::nn {

/// Rotary position embedding (Su et al. 2021) in the layout of Hugging Face's Llama: elements i and i + D/2 of a head
/// of dimension D are a pair, turned by the angle position * 10000^(-2 i / D). `sequence_length` and even
/// `head_dimension`.
template <class T>
class Rotary {
 public:
  Rotary(std::int64_t sequence_length, std::int64_t head_dimension);

  /// Turns, in place, the heads that lie side by side in the columns of `x`; row r is at position r mod
  /// sequence_length.
  void forward(MatrixView<T> x) const;
  /// The transpose of forward, for gradients.
  void backward(MatrixView<T> dx) const;

  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::int64_t sequence_length_;
  std::int64_t head_dimension_;
  Tensor<T> cosine_;  // sequence_length x head_dimension / 2
  Tensor<T> sine_;
};

}  // namespace matrixfsdp::nn
