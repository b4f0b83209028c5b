#include "orthogonalize/normalize.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <matrixfsdp/plan/cost.hpp>

#include "orthogonalize/entries.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp::detail {
namespace {

// A block is a run of whole rows, or a piece of one long row, of about this many entries.
constexpr std::int64_t block_entries = square_sum_entries;
constexpr int lane_count = 8;

struct BlockGrid {
  std::int64_t rows_per_block;
  std::int64_t cols_per_block;
  std::int64_t blocks_per_row;
  std::int64_t blocks;
};

BlockGrid block_grid(std::int64_t rows, std::int64_t cols) {
  BlockGrid grid{};
  grid.cols_per_block = std::min(cols, block_entries);
  grid.rows_per_block = std::max<std::int64_t>(1, block_entries / std::max<std::int64_t>(1, cols));
  grid.blocks_per_row = cols > 0 ? (cols + grid.cols_per_block - 1) / grid.cols_per_block : 0;
  grid.blocks = (rows + grid.rows_per_block - 1) / grid.rows_per_block * grid.blocks_per_row;
  return grid;
}

struct SquareSum {
  double first;
  double second;

  KOKKOS_INLINE_FUNCTION double operator()(double sum, double value) const {
    const double scaled = value * first * second;
    return sum + scaled * scaled;
  }
  KOKKOS_INLINE_FUNCTION static double join(double left, double right) { return left + right; }
};

struct LargestMagnitude {
  KOKKOS_INLINE_FUNCTION double operator()(double largest, double value) const {
    return join(largest, value < 0.0 ? -value : value);
  }
  // Keeps a NaN once it has met one.
  KOKKOS_INLINE_FUNCTION static double join(double left, double right) {
    return (right > left || right != right) ? right : left;
  }
};

// scratch[b] <- fold over block b. Lane l takes the columns l, l + 8, ... of the block, so the loop vectorises in an
// order that the source fixes.
template <class T, class Fold>
void fold_blocks(MatrixView<const T> x, const BlockGrid& grid, Fold fold, double* scratch) {
  for_range(
      "matrixfsdp::orthogonalize::fold_blocks", grid.blocks, KOKKOS_LAMBDA(const std::int64_t block) {
        const std::int64_t row_begin = block / grid.blocks_per_row * grid.rows_per_block;
        const std::int64_t col_begin = block % grid.blocks_per_row * grid.cols_per_block;
        const std::int64_t row_end =
            row_begin + grid.rows_per_block < x.rows ? row_begin + grid.rows_per_block : x.rows;
        const std::int64_t count = col_begin + grid.cols_per_block < x.cols ? grid.cols_per_block : x.cols - col_begin;
        double lanes[lane_count] = {};
        for (std::int64_t row = row_begin; row < row_end; ++row) {
          const T* values = x.data + row * x.stride + col_begin;
          std::int64_t col = 0;
          for (; col + lane_count <= count; col += lane_count) {
            for (int lane = 0; lane < lane_count; ++lane) {
              lanes[lane] = fold(lanes[lane], static_cast<double>(values[col + lane]));
            }
          }
          for (int lane = 0; col + lane < count; ++lane) {
            lanes[lane] = fold(lanes[lane], static_cast<double>(values[col + lane]));
          }
        }
        double total = lanes[0];
        for (int lane = 1; lane < lane_count; ++lane)
          total = Fold::join(total, lanes[lane]);
        scratch[block] = total;
      });
}

template <class T, class Out>
struct NormalizeEntry {
  MatrixView<const T> input;
  MatrixView<Out> output;
  double first;
  double second;
  double inverse_norm;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const {
    const T entry = static_cast<T>(static_cast<double>(input(row, col)) * first * second * inverse_norm);
    if constexpr (std::is_same_v<Out, T>) {
      output(row, col) = entry;
    } else {
      output(row, col) = to_bfloat16(entry);
    }
  }
};

template <class T>
struct ZeroEntry {
  MatrixView<T> output;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const { output(row, col) = T{0}; }
};

}  // namespace

std::int64_t measure_scratch(std::int64_t rows, std::int64_t cols) {
  return square_sum_blocks(rows, cols);
}

template <class T>
Normalization measure(MatrixView<const T> x, const TensorView<double>& scratch) {
  const BlockGrid grid = block_grid(x.rows, x.cols);
  double* const partials = scratch.data();
  Normalization result;
  if constexpr (std::is_same_v<T, double>) {
    fold_blocks(x, grid, LargestMagnitude{}, partials);
    double largest = 0.0;
    for (std::int64_t b = 0; b < grid.blocks; ++b)
      largest = LargestMagnitude::join(largest, partials[b]);
    if (!std::isfinite(largest)) {
      result.finite = false;
      return result;
    }
    int exponent = 0;
    std::frexp(largest, &exponent);
    // Two factors: 2^1074, for the smallest denormal, is not a double. Scaling up is exact in both; scaling down takes
    // one factor, so that an entry which vanishes against the largest is rounded once.
    const int second = exponent < 0 ? -exponent / 2 : 0;
    result.first = std::ldexp(1.0, -exponent - second);
    result.second = std::ldexp(1.0, second);
  }
  fold_blocks(x, grid, SquareSum{result.first, result.second}, partials);
  double sum = 0.0;
  for (std::int64_t b = 0; b < grid.blocks; ++b)
    sum += partials[b];
  result.finite = std::isfinite(sum);
  result.zero = sum == 0.0;
  if (result.finite && !result.zero) result.inverse_norm = 1.0 / std::sqrt(sum);
  return result;
}

template <class T, class Out>
void normalize(MatrixView<const T> input, const Normalization& normalization, MatrixView<Out> output) {
  for_each_entry(
      "matrixfsdp::orthogonalize::normalize", input.rows, input.cols,
      NormalizeEntry<T, Out>{input, output, normalization.first, normalization.second, normalization.inverse_norm});
}

template <class T>
void fill_zero(MatrixView<T> output) {
  for_each_entry("matrixfsdp::orthogonalize::fill_zero", output.rows, output.cols, ZeroEntry<T>{output});
}

template Normalization measure<float>(MatrixView<const float>, const TensorView<double>&);
template Normalization measure<double>(MatrixView<const double>, const TensorView<double>&);
template void normalize<float>(MatrixView<const float>, const Normalization&, MatrixView<float>);
template void normalize<float>(MatrixView<const float>, const Normalization&, MatrixView<bfloat16>);
template void normalize<double>(MatrixView<const double>, const Normalization&, MatrixView<double>);
template void fill_zero<float>(MatrixView<float>);
template void fill_zero<double>(MatrixView<double>);

}  // namespace matrixfsdp::detail
