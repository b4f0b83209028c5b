#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/linalg/singular_values.hpp>

#include "linalg/bidiagonal.hpp"

namespace matrixfsdp::linalg {
namespace {

constexpr std::int64_t lanes = 8;
constexpr std::int64_t columns = 64;  // what one thread sums of A^T x
constexpr std::uint64_t seed = 1965;

/// Of a norm, below which it is rounding.
constexpr double negligible = 1e-13;

using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;

/// y <- A x, row by row: partial sums in `lanes` doubles, then those in order.
void rows_times(MatrixView<const float> a, const double* x, double* y) {
  Kokkos::parallel_for(
      "matrixfsdp::linalg::rows_times", Policy(0, a.rows), KOKKOS_LAMBDA(const std::int64_t i) {
        const float* const row = a.data + i * a.stride;
        double partial[lanes] = {0, 0, 0, 0, 0, 0, 0, 0};
        std::int64_t j = 0;
        for (; j + lanes <= a.cols; j += lanes) {
          for (std::int64_t lane = 0; lane < lanes; ++lane)
            partial[lane] += static_cast<double>(row[j + lane]) * x[j + lane];
        }
        for (std::int64_t lane = 0; j < a.cols; ++j, ++lane)
          partial[lane] += static_cast<double>(row[j]) * x[j];
        double sum = 0;
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          sum += partial[lane];
        y[i] = sum;
      });
  Kokkos::fence();
}

/// y <- A^T x, some columns at a time, from the first row to the last.
void columns_times(MatrixView<const float> a, const double* x, double* y) {
  Kokkos::parallel_for(
      "matrixfsdp::linalg::columns_times", Policy(0, (a.cols + columns - 1) / columns),
      KOKKOS_LAMBDA(const std::int64_t block) {
        const std::int64_t begin = block * columns;
        const std::int64_t count = a.cols - begin < columns ? a.cols - begin : columns;
        double sums[columns] = {};
        for (std::int64_t i = 0; i < a.rows; ++i) {
          const float* const row = a.data + i * a.stride + begin;
          for (std::int64_t j = 0; j < count; ++j)
            sums[j] += static_cast<double>(row[j]) * x[i];
        }
        for (std::int64_t j = 0; j < count; ++j)
          y[begin + j] = sums[j];
      });
  Kokkos::fence();
}

double dot(const double* x, const double* y, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += x[i] * y[i];
  return sum;
}

void add(double factor, const double* x, double* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    y[i] += factor * x[i];
}

/// Vectors of one side; the last one is made orthogonal to all before it, and of norm 1.
struct Basis {
  double* data;
  std::int64_t extent;

  [[nodiscard]] double* at(std::int64_t k) const { return data + k * extent; }

  /// Twice is enough (Parlett). Returns the norm; 0, and the vector left as it is, where that is below `least`.
  [[nodiscard]] double append(std::int64_t k, double least) const {
    double* const last = at(k);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t i = 0; i < k; ++i)
        add(-dot(at(i), last, extent), at(i), last, extent);
    }
    const double norm = std::sqrt(dot(last, last, extent));
    if (norm <= least) return 0;
    for (std::int64_t i = 0; i < extent; ++i)
      last[i] /= norm;
    return norm;
  }
};

void start(double* vector, std::int64_t extent) {
  const CounterRandom random(seed, static_cast<std::uint64_t>(extent));
  for (std::int64_t i = 0; i < extent; ++i)
    vector[i] = random.normal(static_cast<std::uint64_t>(i));
}

}  // namespace

SingularValueWorkspace::SingularValueWorkspace() = default;

void SingularValueWorkspace::reserve(std::int64_t rows, std::int64_t cols, std::int64_t steps) {
  const std::int64_t count = std::min({steps, rows, cols}) * (rows + cols);
  if (static_cast<std::int64_t>(vectors.extent(0)) >= count) return;
  vectors = make_tensor<double>("matrixfsdp::linalg::vectors", 0);
  vectors = make_tensor<double>("matrixfsdp::linalg::vectors", count);
}

std::int64_t SingularValueWorkspace::bytes() const {
  return static_cast<std::int64_t>(vectors.extent(0) * sizeof(double));
}

SingularValues estimate_singular_values(MatrixView<const float> matrix, std::int64_t steps,
                                        SingularValueWorkspace& workspace) {
  const std::int64_t small = std::min(matrix.rows, matrix.cols);
  const std::int64_t most = std::min({steps, small, most_bidiagonal});
  if (most < 1) return {};
  workspace.reserve(matrix.rows, matrix.cols, most);
  const Basis v{workspace.vectors.data(), small};
  const Basis u{v.data + most * small, matrix.rows + matrix.cols - small};
  const bool tall = matrix.rows >= matrix.cols;
  Bidiagonal b;
  start(v.at(0), small);
  static_cast<void>(v.append(0, 0));
  double scale = 0;
  for (std::int64_t k = 0; k < most; ++k) {
    // Products with the vectors before it are what `append` takes away: -beta u_(k-1) of the recurrence among them.
    tall ? rows_times(matrix, v.at(k), u.at(k)) : columns_times(matrix, v.at(k), u.at(k));
    const double alpha = u.append(k, negligible * scale);
    b.append(alpha);
    scale = std::max(scale, alpha);
    if (alpha == 0 || k + 1 == most) break;
    tall ? columns_times(matrix, u.at(k), v.at(k + 1)) : rows_times(matrix, u.at(k), v.at(k + 1));
    const double beta = v.append(k + 1, negligible * scale);
    if (beta == 0) break;
    b.above(beta);
    scale = std::max(scale, beta);
  }
  return b.singular_values();
}

}  // namespace matrixfsdp::linalg
