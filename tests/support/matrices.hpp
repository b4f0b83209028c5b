#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "support/reference_linalg.hpp"

/// Owning matrices for tests, with space between the rows, and conversions to and from the reference.
namespace matrixfsdp::test {

/// rows x cols in a tensor with `gap` more elements after each row. The gaps hold a mark, so that a stray write shows.
template <class T>
class Strided {
 public:
  static constexpr T mark = static_cast<T>(-77);

  Strided(std::int64_t rows, std::int64_t cols, std::int64_t gap = 0)
      : tensor_(make_tensor<T>("test", rows * (cols + gap))), rows_(rows), cols_(cols), stride_(cols + gap) {
    Kokkos::deep_copy(tensor_, mark);
  }
  Strided(const reference::Dense& values, std::int64_t gap = 0) : Strided(values.rows, values.cols, gap) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j)
        (*this)(i, j) = static_cast<T>(values(i, j));
    }
  }

  [[nodiscard]] MatrixView<T> view() const { return {tensor_.data(), rows_, cols_, stride_}; }
  T& operator()(std::int64_t row, std::int64_t col) const { return view()(row, col); }

  void fill(T value) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j)
        (*this)(i, j) = value;
    }
  }

  [[nodiscard]] reference::Dense dense() const {
    reference::Dense result(rows_, cols_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j)
        result(i, j) = static_cast<double>((*this)(i, j));
    }
    return result;
  }

  [[nodiscard]] bool gaps_are_untouched() const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = cols_; j < stride_; ++j) {
        if (tensor_.data()[i * stride_ + j] != mark) return false;
      }
    }
    return true;
  }

  /// Entries as they are in memory, row by row: equal for equal bits only.
  [[nodiscard]] std::string bits() const {
    std::string result;
    for (std::int64_t i = 0; i < rows_; ++i) {
      result.append(reinterpret_cast<const char*>(&view()(i, 0)), static_cast<std::size_t>(cols_) * sizeof(T));
    }
    return result;
  }

 private:
  Tensor<T> tensor_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t stride_;
};

/// Integers from -4 to 4: every sum of their products is exact in float32, so equality does not depend on its order.
inline reference::Dense integers(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  reference::Dense result(rows, cols);
  const CounterRandom random(seed, 0);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    result.values[i] = static_cast<double>(random.below(i, 9)) - 4.0;
  }
  return result;
}

}  // namespace matrixfsdp::test
