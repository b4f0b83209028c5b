#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// What is unchecked, and what T is: see activation.hpp.
namespace matrixfsdp::nn {

/// Rotary position embedding (Su et al. 2021) in the layout of Hugging Face's Llama: elements i and i + D/2 of a head
/// of dimension D are a pair, turned by the angle position * 10000^(-2 i / D).
template <class T>
class Rotary {
 public:
  /// Makes the table of angles. Throws ContractError for a sequence length below 1, and for a head dimension that is
  /// not positive and even.
  Rotary(std::int64_t sequence_length, std::int64_t head_dimension);

  /// Turns, in place, the heads that lie side by side in the columns of `x` (a multiple of head_dimension); row r is at
  /// position r mod sequence_length.
  void forward(MatrixView<T> x) const;
  /// The transpose of forward, for gradients.
  void backward(MatrixView<T> dx) const;

  /// Of the table.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::int64_t sequence_length_;
  std::int64_t head_dimension_;
  Tensor<T> cosine_;  // sequence_length x head_dimension / 2
  Tensor<T> sine_;
};

}  // namespace matrixfsdp::nn
