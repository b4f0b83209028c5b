#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "orthogonalize/normalize.hpp"
#include "orthogonalize/products.hpp"

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

// z holds R^2 and becomes a I + b R + c R^2, so that the step is one product, X <- z X: no copy of X to add to.
template <class T>
void polynomial(const Quintic& step, MatrixView<const T> r, MatrixView<T> z) {
  const T a = static_cast<T>(step.a);
  const T b = static_cast<T>(step.b);
  const T c = static_cast<T>(step.c);
  const T* const r_data = r.data;
  T* const z_data = z.data;
  const std::int64_t extent = z.rows;
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(
      "matrixfsdp::orthogonalize::polynomial", Policy(0, extent * extent),
      KOKKOS_LAMBDA(const std::int64_t i) { z_data[i] = b * r_data[i] + c * z_data[i]; });
  Kokkos::parallel_for(
      "matrixfsdp::orthogonalize::add_identity", Policy(0, extent),
      KOKKOS_LAMBDA(const std::int64_t i) { z_data[i * (extent + 1)] += a; });
  Kokkos::fence();
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

// A polar factor has the norm sqrt(m), and every named sequence stays below twice that after any number of steps.
bool has_diverged(const detail::Normalization& result, std::int64_t smaller_extent) {
  constexpr double most = 4.0;
  if (!result.finite) return true;
  return !result.zero && 1.0 > most * std::sqrt(static_cast<double>(smaller_extent)) * result.first * result.second *
                                   result.inverse_norm;
}

/// ||O O^T - I||_F / sqrt(m); `gram` is overwritten.
template <class T>
double residual_of(MatrixView<const T> output, MatrixView<T> gram, const TensorView<double>& scratch) {
  detail::Products<T>(output.rows > output.cols).gram(output, gram);
  T* const entries = gram.data;
  const std::int64_t extent = gram.rows;
  Kokkos::parallel_for(
      "matrixfsdp::orthogonalize::subtract_identity",
      Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, extent),
      KOKKOS_LAMBDA(const std::int64_t i) { entries[i * (extent + 1)] -= T{1}; });
  Kokkos::fence();
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
void NewtonSchulzWorkspace<T>::reserve(std::int64_t rows, std::int64_t cols, NewtonSchulzAlgorithm algorithm) {
  const std::int64_t small = std::min(rows, cols);
  grow(iterate, "matrixfsdp::orthogonalize::iterate", rows * cols);
  grow(products, "matrixfsdp::orthogonalize::products", small_matrices(resolve(algorithm, rows, cols)) * small * small);
  grow(partial_sums, "matrixfsdp::orthogonalize::partial_sums", detail::measure_scratch(rows, cols));
}

template <class T>
std::int64_t NewtonSchulzWorkspace<T>::bytes() const {
  return static_cast<std::int64_t>((iterate.extent(0) + products.extent(0)) * sizeof(T) +
                                   partial_sums.extent(0) * sizeof(double));
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

  OrthogonalizeResult result;
  result.algorithm = resolve(options.algorithm, rows, cols, options.steps);
  result.steps = options.steps;
  if (rows == 0 || cols == 0) {
    result.status = OrthogonalizeStatus::zero;
    return result;
  }
  workspace.reserve(rows, cols, result.algorithm);
  const TensorView<double> partial_sums = workspace.partial_sums;
  const detail::Normalization normalization = detail::measure<T>(input, partial_sums);
  if (!normalization.finite) {
    result.status = OrthogonalizeStatus::non_finite;
    return result;
  }
  if (normalization.zero) {
    detail::fill_zero<T>(output);
    result.status = OrthogonalizeStatus::zero;
    return result;
  }

  const MatrixView<T> buffer(workspace.iterate.data(), rows, cols);
  const bool odd = updates_of_x(options.steps, result.algorithm) % 2 == 1;
  Iteration<T> it{coefficients,
                  options.steps,
                  result.algorithm,
                  detail::Products<T>(rows > cols),
                  odd ? buffer : output,
                  odd ? output : buffer,
                  {}};
  const std::int64_t small = std::min(rows, cols);
  for (int i = 0; i < small_matrices(result.algorithm); ++i) {
    it.small[i] = MatrixView<T>(workspace.products.data() + i * small * small, small, small);
  }
  detail::normalize<T>(input, normalization, it.x);
  if (result.algorithm == NewtonSchulzAlgorithm::standard) {
    iterate_standard(it);
  } else {
    iterate_gram(it);
  }
  result.flops = it.products.flops();
  if (has_diverged(detail::measure<T>(output, partial_sums), small)) {
    result.status = OrthogonalizeStatus::diverged;
  } else if (options.measure_residual) {
    result.residual = residual_of<T>(output, it.small[0], partial_sums);
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
