#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "linalg/fill_symmetric.hpp"
#include "orthogonalize/normalize.hpp"
#include "orthogonalize/products.hpp"
#include "orthogonalize/rounded_iteration.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp {
namespace {

// The Gram form restarts once, before this step (Dao AI Lab): rounding errors of R grow by a^2 in each step.
constexpr int restart_step = 2;

int small_matrices(NewtonSchulzAlgorithm algorithm) {
  return algorithm == NewtonSchulzAlgorithm::standard ? 2 : 4;
}

bool restarts_before(int step, int steps, NewtonSchulzAlgorithm algorithm) {
  return algorithm == NewtonSchulzAlgorithm::gram && step == restart_step && steps > restart_step;
}

// How often X is multiplied, which decides the buffer that the iteration starts in.
int updates_of_x(int steps, NewtonSchulzAlgorithm algorithm) {
  if (algorithm == NewtonSchulzAlgorithm::standard) return steps;
  return restarts_before(restart_step, steps, algorithm) ? 2 : 1;
}

// The lower triangle of z holds that of R^2, and z becomes a I + b R + c R^2, so that the step is one product, X <- z
// X: no copy of X to add to. Both triangles in one pass.
template <class T>
void polynomial(const Quintic& step, MatrixView<const T> r, MatrixView<T> z) {
  const T a = static_cast<T>(step.a);
  const T b = static_cast<T>(step.b);
  const T c = static_cast<T>(step.c);
  linalg::detail::fill_symmetric<true>(
      "matrixfsdp::orthogonalize::polynomial", z, KOKKOS_LAMBDA(const std::int64_t i, const std::int64_t j) {
        const T sum = b * r(i, j) + c * z(i, j);
        return i == j ? sum + a : sum;
      });
}

// Both iterations leave their result in `x` after an odd number of updates in `other`: the caller has arranged that the
// last one lands in the output.
template <class T>
struct Iteration {
  const QuinticSequence& coefficients;
  int steps;
  NewtonSchulzAlgorithm algorithm;
  detail::Products<T> products;
  MatrixView<T> x;
  MatrixView<T> other;
  MatrixView<T> small[4];
};

template <class T>
void update_x(Iteration<T>& it, MatrixView<const T> q) {
  it.products.apply(q, it.x, it.other);
  std::swap(it.x, it.other);
}

template <class T>
void iterate_standard(Iteration<T>& it) {
  const MatrixView<T> r = it.small[0];
  const MatrixView<T> z = it.small[1];
  for (int step = 0; step < it.steps; ++step) {
    it.products.gram(it.x, r);
    it.products.square(r, z);
    polynomial<T>(it.coefficients.at(step), r, z);
    update_x<T>(it, z);
  }
}

// X_t = Q X_0 with Q a polynomial of R = X_0 X_0^T: all steps act on small matrices (Dao AI Lab, Gram Newton-Schulz,
// 2026). With z = a I + b R + c R^2, a step is Q <- Q z and R <- R z^2.
template <class T>
void iterate_gram(Iteration<T>& it) {
  const MatrixView<T> r = it.small[0];  // R needs no swap: its second product lands in it
  MatrixView<T> z = it.small[1];
  MatrixView<T> q = it.small[2];
  MatrixView<T> spare = it.small[3];
  bool q_is_identity = true;
  it.products.gram(it.x, r);
  for (int step = 0; step < it.steps; ++step) {
    if (restarts_before(step, it.steps, it.algorithm)) {
      update_x<T>(it, q);
      it.products.gram(it.x, r);
      q_is_identity = true;
    }
    it.products.square(r, z);
    polynomial<T>(it.coefficients.at(step), r, z);
    if (step + 1 < it.steps && !restarts_before(step + 1, it.steps, it.algorithm)) {
      it.products.multiply(r, z, spare);
      it.products.multiply(z, spare, r);
    }
    if (q_is_identity) {
      std::swap(q, z);
    } else {
      it.products.multiply(q, z, spare);
      std::swap(q, spare);
    }
    q_is_identity = false;
  }
  update_x<T>(it, q);
}

/// Returns the FLOPs of the products.
template <class T>
std::int64_t iterate(MatrixView<const T> input, const detail::Normalization& normalization,
                     const QuinticSequence& coefficients, const OrthogonalizeResult& run,
                     NewtonSchulzWorkspace<T>& workspace, MatrixView<T> output) {
  const MatrixView<T> buffer(workspace.iterate.data(), input.rows, input.cols);
  const bool odd = updates_of_x(run.steps, run.algorithm) % 2 == 1;
  Iteration<T> it{coefficients,
                  run.steps,
                  run.algorithm,
                  detail::Products<T>(input.rows > input.cols, workspace.workers),
                  odd ? buffer : output,
                  odd ? output : buffer,
                  {}};
  const std::int64_t small = std::min(input.rows, input.cols);
  for (int i = 0; i < small_matrices(run.algorithm); ++i) {
    it.small[i] = MatrixView<T>(workspace.products.data() + i * small * small, small, small);
  }
  detail::normalize<T>(input, normalization, it.x);
  if (run.algorithm == NewtonSchulzAlgorithm::standard) {
    iterate_standard(it);
  } else {
    iterate_gram(it);
  }
  return it.products.flops();
}

// A polar factor has the norm sqrt(m), and every named sequence stays below twice that after any number of steps.
bool has_diverged(const detail::Normalization& result, std::int64_t smaller_extent) {
  constexpr double most = 4.0;
  if (!result.finite) return true;
  return !result.zero && 1.0 > most * std::sqrt(static_cast<double>(smaller_extent)) * result.first * result.second *
                                   result.inverse_norm;
}

/// ||O O^T - I||_F / sqrt(m); `gram` is overwritten.
template <class T>
double residual_of(MatrixView<const T> output, MatrixView<T> gram, const TensorView<double>& scratch,
                   linalg::Workers* workers) {
  detail::Products<T>(output.rows > output.cols, workers).gram(output, gram);
  T* const entries = gram.data;
  const std::int64_t extent = gram.rows;
  detail::for_range(
      "matrixfsdp::orthogonalize::subtract_identity", extent,
      KOKKOS_LAMBDA(const std::int64_t i) { entries[i * (extent + 1)] -= T{1}; });
  const detail::Normalization difference = detail::measure<T>(gram, scratch);
  if (difference.zero) return 0;
  return 1 / (difference.first * difference.second * difference.inverse_norm * std::sqrt(static_cast<double>(extent)));
}

template <class T>
bool overlaps_in_part(MatrixView<const T> input, MatrixView<T> output) {
  return input.data == output.data && input.stride != output.stride && input.rows > 1;
}

template <class T>
void grow(Tensor<T>& tensor, const char* label, std::int64_t count) {
  if (static_cast<std::int64_t>(tensor.extent(0)) >= count) return;
  // The old one goes first: its contents are not needed, and both together would be the peak.
  tensor = make_tensor<T>(label, 0);
  tensor = make_tensor<T>(label, count);
}

}  // namespace

template <class T>
NewtonSchulzWorkspace<T>::NewtonSchulzWorkspace() = default;

template <class T>
void NewtonSchulzWorkspace<T>::reserve(std::int64_t rows, std::int64_t cols, const NewtonSchulzOptions& options) {
  const NewtonSchulzScratch scratch =
      newton_schulz_scratch(rows, cols, options.algorithm, options.steps, options.dtype);
  grow(iterate, "matrixfsdp::orthogonalize::iterate", scratch.iterate);
  grow(products, "matrixfsdp::orthogonalize::products", scratch.products);
  grow(rounded, "matrixfsdp::orthogonalize::rounded", scratch.rounded);
  grow(partial_sums, "matrixfsdp::orthogonalize::partial_sums", scratch.sums);
  if (options.dtype == DType::bfloat16 && !bfloat16_products) {
    bfloat16_products = std::make_unique<linalg::Bfloat16Products>();
  }
}

template <class T>
std::int64_t NewtonSchulzWorkspace<T>::bytes() const {
  return static_cast<std::int64_t>((iterate.extent(0) + products.extent(0)) * sizeof(T) +
                                   rounded.extent(0) * sizeof(bfloat16) + partial_sums.extent(0) * sizeof(double));
}

template <class T>
OrthogonalizeResult orthogonalize(MatrixView<const std::type_identity_t<T>> input, MatrixView<T> output,
                                  const NewtonSchulzOptions& options, NewtonSchulzWorkspace<T>& workspace) {
  const std::int64_t rows = input.rows;
  const std::int64_t cols = input.cols;
  if (rows != output.rows || cols != output.cols) {
    throw ContractError(fmt::format("orthogonalize: input {}x{}, output {}x{}: expected equal extents", rows, cols,
                                    output.rows, output.cols));
  }
  if (overlaps_in_part<T>(input, output)) {
    throw ContractError(
        fmt::format("orthogonalize: one matrix with strides {} and {}: expected the same view or no overlap",
                    input.stride, output.stride));
  }
  if (options.steps < 1) {
    throw ContractError(fmt::format("orthogonalize: {} steps, expected at least 1", options.steps));
  }
  const QuinticSequence& coefficients =
      options.coefficients != nullptr ? *options.coefficients : quintic_sequence("polar-express");
  if (coefficients.steps.empty()) {
    throw ContractError(fmt::format("orthogonalize: coefficients \"{}\" have no step", coefficients.name));
  }
  if (!(options.norm_floor >= 0 && std::isfinite(options.norm_floor))) {
    throw ContractError(fmt::format("orthogonalize: norm floor {}, expected at least 0", options.norm_floor));
  }
  const bool in_bfloat16 = options.dtype == DType::bfloat16;

  OrthogonalizeResult result;
  result.algorithm = resolve(options.algorithm, rows, cols, options.steps, options.dtype);
  if (in_bfloat16 && (result.algorithm != NewtonSchulzAlgorithm::standard || !std::is_same_v<T, float>)) {
    throw ContractError(fmt::format("orthogonalize: {} steps in bfloat16, expected standard ones of float matrices",
                                    name_of(options.algorithm)));
  }
  result.steps = options.steps;
  if (rows == 0 || cols == 0) {
    result.status = OrthogonalizeStatus::zero;
    return result;
  }
  workspace.reserve(rows, cols, options);
  const TensorView<double> partial_sums = workspace.partial_sums;
  detail::Normalization normalization = detail::measure<T>(input, partial_sums);
  if (!normalization.finite) {
    result.status = OrthogonalizeStatus::non_finite;
    return result;
  }
  if (normalization.zero) {
    detail::fill_zero<T>(output);
    result.status = OrthogonalizeStatus::zero;
    return result;
  }

  if (options.norm_floor > 0) {
    normalization.inverse_norm =
        std::min(normalization.inverse_norm, 1 / options.norm_floor / normalization.first / normalization.second);
  }
  const std::int64_t small = std::min(rows, cols);
  if constexpr (std::is_same_v<T, float>) {
    if (in_bfloat16) {
      result.flops = detail::iterate_bfloat16(input, normalization, coefficients, options.steps, workspace, output);
    }
  }
  if (!in_bfloat16) result.flops = iterate<T>(input, normalization, coefficients, result, workspace, output);
  if (has_diverged(detail::measure<T>(output, partial_sums), small)) {
    result.status = OrthogonalizeStatus::diverged;
  } else if (options.measure_residual) {
    result.residual =
        residual_of<T>(output, MatrixView<T>(workspace.products.data(), small, small), partial_sums, workspace.workers);
  }
  return result;
}

template class NewtonSchulzWorkspace<float>;
template class NewtonSchulzWorkspace<double>;
template OrthogonalizeResult orthogonalize<float>(MatrixView<const float>, MatrixView<float>,
                                                  const NewtonSchulzOptions&, NewtonSchulzWorkspace<float>&);
template OrthogonalizeResult orthogonalize<double>(MatrixView<const double>, MatrixView<double>,
                                                   const NewtonSchulzOptions&, NewtonSchulzWorkspace<double>&);

}  // namespace matrixfsdp
