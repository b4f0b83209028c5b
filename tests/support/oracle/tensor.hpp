#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

/// A single-process trainer to compare the library with. It shares no line with the library: plain loops in double, the
/// standard library, and nothing else.
namespace oracle {

/// Row-major values of any shape.
struct Tensor {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

/// By name.
using Parameters = std::map<std::string, Tensor>;

inline std::size_t size_of(const std::vector<std::size_t>& shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape)
    size *= extent;
  return size;
}

inline Tensor zeros(std::vector<std::size_t> shape) {
  const std::size_t size = size_of(shape);
  return {std::move(shape), std::vector<double>(size, 0.0)};
}

/// Row-major rows x cols: activations, and blocks of weights.
struct Matrix {
  Matrix(std::size_t row_count, std::size_t col_count)
      : rows(row_count), cols(col_count), values(row_count * col_count, 0.0) {}

  double& operator()(std::size_t row, std::size_t col) { return values[row * cols + col]; }
  double operator()(std::size_t row, std::size_t col) const { return values[row * cols + col]; }

  std::size_t rows;
  std::size_t cols;
  std::vector<double> values;
};

}  // namespace oracle
