#pragma once

#include <array>
#include <cstdint>

#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::nn::detail {

/// Copies of operands, rounded to bfloat16: one each of a product's A and B, and up to two that are held.
class RoundedOperands {
 public:
  enum class Role { a, b };

  /// The held copy of this very view, or else a new one in the place for `role`, good until the next of that role.
  MatrixView<const bfloat16> rounded(Role role, MatrixView<const float> operand);
  void hold(MatrixView<const float> operand);
  void release() { --held_; }

  void reserve(const std::array<std::int64_t, 4>& elements);
  [[nodiscard]] std::int64_t bytes() const;

  linalg::Bfloat16Products products;

 private:
  static constexpr std::size_t most_held = 2;

  MatrixView<const bfloat16> round_into(std::size_t place, MatrixView<const float> operand);

  std::array<Tensor<bfloat16>, 2 + most_held> words_;
  std::array<MatrixView<const float>, most_held> of_;
  std::size_t held_ = 0;
};

}  // namespace matrixfsdp::nn::detail
