#pragma once

#include <cstdint>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "support/reference_linalg.hpp"

/// As matrices.hpp, of bfloat16.
namespace matrixfsdp::test {

/// Every value rounded to float32, then to bfloat16.
inline reference::Dense rounded_to_bfloat16(reference::Dense values) {
  for (double& value : values.values)
    value = static_cast<double>(to_float(to_bfloat16(static_cast<float>(value))));
  return values;
}

class BfloatMatrix {
 public:
  static constexpr bfloat16 mark{0x7fab};

  BfloatMatrix(std::int64_t rows, std::int64_t cols, std::int64_t gap = 0)
      : tensor_(make_tensor<bfloat16>("test", rows * (cols + gap))), view_(tensor_.data(), rows, cols, cols + gap) {
    for (std::int64_t i = 0; i < rows * view_.stride; ++i)
      tensor_.data()[i] = mark;
  }
  explicit BfloatMatrix(const reference::Dense& values, std::int64_t gap = 0)
      : BfloatMatrix(values.rows, values.cols, gap) {
    for (std::int64_t i = 0; i < values.rows; ++i) {
      for (std::int64_t j = 0; j < values.cols; ++j)
        view_(i, j) = to_bfloat16(static_cast<float>(values(i, j)));
    }
  }

  [[nodiscard]] MatrixView<bfloat16> view() const { return view_; }

  [[nodiscard]] reference::Dense dense() const {
    reference::Dense result(view_.rows, view_.cols);
    for (std::int64_t i = 0; i < view_.rows; ++i) {
      for (std::int64_t j = 0; j < view_.cols; ++j)
        result(i, j) = static_cast<double>(to_float(view_(i, j)));
    }
    return result;
  }

  [[nodiscard]] bool gaps_are_untouched() const {
    for (std::int64_t i = 0; i < view_.rows; ++i) {
      for (std::int64_t j = view_.cols; j < view_.stride; ++j) {
        if (tensor_.data()[i * view_.stride + j] != mark) return false;
      }
    }
    return true;
  }

 private:
  Tensor<bfloat16> tensor_;
  MatrixView<bfloat16> view_;
};

}  // namespace matrixfsdp::test
