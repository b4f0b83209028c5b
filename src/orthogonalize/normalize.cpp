#include "orthogonalize/normalize.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <matrixfsdp/plan/cost.hpp>

#include "orthogonalize/entries.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp::detail {
namespace {

using linalg::detail::MatrixBatch;

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

/// What measures one matrix, as a batch of one.
template <class Value>
struct Only {
  Value value;

  KOKKOS_INLINE_FUNCTION Value operator[](std::int64_t /*matrix*/) const { return value; }
};

/// Of a batch: each matrix by its own scale.
struct SquareSums {
  const Normalization* scales;

  KOKKOS_INLINE_FUNCTION SquareSum operator[](std::int64_t matrix) const {
    return {scales[matrix].first, scales[matrix].second};
  }
};

// scratch[b] <- fold over block b, of the first matrix, then of the next one. Lane l takes the columns l, l + 8, ... of
// the block, so the loop vectorises in an order that the source fixes.
template <class T, class Matrices, class Folds>
void fold_blocks(const Matrices& matrices, std::int64_t count, const BlockGrid& grid, const Folds& folds,
                 double* scratch) {
  for_range(
      "matrixfsdp::orthogonalize::fold_blocks", count * grid.blocks, KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t matrix = index / grid.blocks;
        const std::int64_t block = index % grid.blocks;
        const MatrixView<const T> x = matrices[matrix];
        const auto fold = folds[matrix];
        const std::int64_t row_begin = block / grid.blocks_per_row * grid.rows_per_block;
        const std::int64_t col_begin = block % grid.blocks_per_row * grid.cols_per_block;
        const std::int64_t row_end =
            row_begin + grid.rows_per_block < x.rows ? row_begin + grid.rows_per_block : x.rows;
        const std::int64_t width = col_begin + grid.cols_per_block < x.cols ? grid.cols_per_block : x.cols - col_begin;
        double lanes[lane_count] = {};
        for (std::int64_t row = row_begin; row < row_end; ++row) {
          const T* values = x.data + row * x.stride + col_begin;
          std::int64_t col = 0;
          for (; col + lane_count <= width; col += lane_count) {
            for (int lane = 0; lane < lane_count; ++lane) {
              lanes[lane] = fold(lanes[lane], static_cast<double>(values[col + lane]));
            }
          }
          for (int lane = 0; col + lane < width; ++lane) {
            lanes[lane] = fold(lanes[lane], static_cast<double>(values[col + lane]));
          }
        }
        double total = lanes[0];
        for (int lane = 1; lane < lane_count; ++lane)
          total = decltype(fold)::join(total, lanes[lane]);
        scratch[index] = total;
      });
}

/// Of a double matrix with this largest magnitude.
Normalization scaled_by(double largest) {
  Normalization result;
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
  return result;
}

void set_norm(Normalization& result, double sum) {
  result.finite = std::isfinite(sum);
  result.zero = sum == 0.0;
  if (result.finite && !result.zero) result.inverse_norm = 1.0 / std::sqrt(sum);
}

double sum_of(const double* partials, std::int64_t blocks) {
  double sum = 0.0;
  for (std::int64_t b = 0; b < blocks; ++b)
    sum += partials[b];
  return sum;
}

double largest_of(const double* partials, std::int64_t blocks) {
  double largest = 0.0;
  for (std::int64_t b = 0; b < blocks; ++b)
    largest = LargestMagnitude::join(largest, partials[b]);
  return largest;
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

template <class T, class Out>
struct NormalizeSlot {
  NormalizeEntry<T, Out> normalize;
  bool answered;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const {
    if (answered) {
      normalize(row, col);
    } else {
      normalize.output(row, col) = Out{};
    }
  }
};

template <class T, class Out>
struct NormalizeSlots {
  const MatrixView<const T>* inputs;
  const Normalization* norms;
  MatrixBatch<Out> x;

  KOKKOS_INLINE_FUNCTION NormalizeSlot<T, Out> operator[](std::int64_t slot) const {
    const Normalization& norm = norms[slot];
    return {{inputs[slot], x[slot], norm.first, norm.second, norm.inverse_norm}, norm.finite && !norm.zero};
  }
};

template <class T>
struct HandOutEntry {
  MatrixView<const T> x;
  MatrixView<T> output;
  bool finite;
  bool zero;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const {
    if (finite) output(row, col) = zero ? T{0} : x(row, col);
  }
};

template <class T>
struct HandOutSlots {
  MatrixBatch<const T> x;
  const Normalization* norms;
  const MatrixView<T>* outputs;

  KOKKOS_INLINE_FUNCTION HandOutEntry<T> operator[](std::int64_t slot) const {
    return {x[slot], outputs[slot], norms[slot].finite, norms[slot].zero};
  }
};

}  // namespace

std::int64_t measure_scratch(std::int64_t rows, std::int64_t cols) {
  return square_sum_blocks(rows, cols);
}

void raise_norm(Normalization& normalization, double norm_floor) {
  if (norm_floor > 0) {
    normalization.inverse_norm =
        std::min(normalization.inverse_norm, 1 / norm_floor / normalization.first / normalization.second);
  }
}

template <class T>
Normalization measure(MatrixView<const T> x, const TensorView<double>& scratch) {
  const BlockGrid grid = block_grid(x.rows, x.cols);
  const Only<MatrixView<const T>> matrix{x};
  double* const partials = scratch.data();
  Normalization result;
  if constexpr (std::is_same_v<T, double>) {
    fold_blocks<T>(matrix, 1, grid, Only<LargestMagnitude>{}, partials);
    result = scaled_by(largest_of(partials, grid.blocks));
    if (!result.finite) return result;
  }
  fold_blocks<T>(matrix, 1, grid, Only<SquareSum>{{result.first, result.second}}, partials);
  set_norm(result, sum_of(partials, grid.blocks));
  return result;
}

template <class T, class Matrices>
void measure_batch(const Matrices& matrices, std::int64_t count, std::int64_t rows, std::int64_t cols,
                   Normalization* results, const TensorView<double>& scratch) {
  const BlockGrid grid = block_grid(rows, cols);
  double* const partials = scratch.data();
  if constexpr (std::is_same_v<T, double>) fold_blocks<T>(matrices, count, grid, Only<LargestMagnitude>{}, partials);
  for (std::int64_t i = 0; i < count; ++i) {
    results[i] = {};
    if constexpr (std::is_same_v<T, double>)
      results[i] = scaled_by(largest_of(partials + i * grid.blocks, grid.blocks));
  }
  fold_blocks<T>(matrices, count, grid, SquareSums{results}, partials);
  for (std::int64_t i = 0; i < count; ++i) {
    if (results[i].finite) set_norm(results[i], sum_of(partials + i * grid.blocks, grid.blocks));
  }
}

template <class T, class Out>
void normalize(MatrixView<const T> input, const Normalization& normalization, MatrixView<Out> output) {
  for_each_entry(
      "matrixfsdp::orthogonalize::normalize", input.rows, input.cols,
      NormalizeEntry<T, Out>{input, output, normalization.first, normalization.second, normalization.inverse_norm});
}

template <class T, class Out>
void normalize_batch(const MatrixView<const T>* inputs, const Normalization* normalizations,
                     const MatrixBatch<Out>& x) {
  for_each_entry_of_batch("matrixfsdp::orthogonalize::normalize", x.count, x.rows, x.cols,
                          NormalizeSlots<T, Out>{inputs, normalizations, x});
}

template <class T>
void hand_out_batch(const MatrixBatch<const T>& x, const Normalization* normalizations, std::int64_t count,
                    const MatrixView<T>* outputs) {
  for_each_entry_of_batch("matrixfsdp::orthogonalize::hand_out", count, x.rows, x.cols,
                          HandOutSlots<T>{x, normalizations, outputs});
}

template <class T>
void fill_zero(MatrixView<T> output) {
  for_each_entry("matrixfsdp::orthogonalize::fill_zero", output.rows, output.cols, ZeroEntry<T>{output});
}

template Normalization measure<float>(MatrixView<const float>, const TensorView<double>&);
template Normalization measure<double>(MatrixView<const double>, const TensorView<double>&);
template void measure_batch<float>(const MatrixBatch<float>&, std::int64_t, std::int64_t, std::int64_t, Normalization*,
                                   const TensorView<double>&);
template void measure_batch<double>(const MatrixBatch<double>&, std::int64_t, std::int64_t, std::int64_t,
                                    Normalization*, const TensorView<double>&);
template void measure_batch<float>(const MatrixView<const float>* const&, std::int64_t, std::int64_t, std::int64_t,
                                   Normalization*, const TensorView<double>&);
template void measure_batch<double>(const MatrixView<const double>* const&, std::int64_t, std::int64_t, std::int64_t,
                                    Normalization*, const TensorView<double>&);
template void normalize_batch<float>(const MatrixView<const float>*, const Normalization*, const MatrixBatch<float>&);
template void normalize_batch<double>(const MatrixView<const double>*, const Normalization*,
                                      const MatrixBatch<double>&);
template void normalize_batch<float>(const MatrixView<const float>*, const Normalization*,
                                     const MatrixBatch<bfloat16>&);
template void hand_out_batch<float>(const MatrixBatch<const float>&, const Normalization*, std::int64_t,
                                    const MatrixView<float>*);
template void hand_out_batch<double>(const MatrixBatch<const double>&, const Normalization*, std::int64_t,
                                     const MatrixView<double>*);
template void normalize<float>(MatrixView<const float>, const Normalization&, MatrixView<float>);
template void normalize<float>(MatrixView<const float>, const Normalization&, MatrixView<bfloat16>);
template void normalize<double>(MatrixView<const double>, const Normalization&, MatrixView<double>);
template void fill_zero<float>(MatrixView<float>);
template void fill_zero<double>(MatrixView<double>);

}  // namespace matrixfsdp::detail
