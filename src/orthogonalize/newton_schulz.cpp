#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "orthogonalize/contract.hpp"
#include "orthogonalize/iteration.hpp"
#include "orthogonalize/normalize.hpp"
#include "orthogonalize/products.hpp"
#include "orthogonalize/rounded_iteration.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp {
namespace {

/// Returns the FLOPs of the products.
template <class T>
std::int64_t iterate_one(MatrixView<const T> input, const detail::Normalization& normalization,
                         const QuinticSequence& coefficients, const OrthogonalizeResult& run,
                         NewtonSchulzWorkspace<T>& workspace, MatrixView<T> output) {
  const MatrixView<T> buffer(workspace.iterate.data(), input.rows, input.cols);
  // The last update lands in the output.
  const bool odd = detail::updates_of_x(run.steps, run.algorithm) % 2 == 1;
  detail::Iteration<detail::Products<T>> it{coefficients,
                                            run.steps,
                                            run.algorithm,
                                            detail::Products<T>(input.rows > input.cols, workspace.workers),
                                            odd ? buffer : output,
                                            odd ? output : buffer,
                                            {}};
  const std::int64_t small = std::min(input.rows, input.cols);
  for (int i = 0; i < detail::small_matrices(run.algorithm); ++i) {
    it.small[i] = MatrixView<T>(workspace.products.data() + i * small * small, small, small);
  }
  detail::normalize<T>(input, normalization, it.x);
  detail::iterate(it);
  return it.products.flops();
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
  return detail::residual_of_difference(detail::measure<T>(gram, scratch), extent);
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
void NewtonSchulzWorkspace<T>::reserve(std::int64_t rows, std::int64_t cols, const NewtonSchulzOptions& options,
                                       std::int64_t batch) {
  const NewtonSchulzScratch scratch =
      newton_schulz_scratch(rows, cols, options.algorithm, options.steps, options.dtype, batch);
  grow(iterate, "matrixfsdp::orthogonalize::iterate", scratch.iterate);
  grow(products, "matrixfsdp::orthogonalize::products", scratch.products);
  grow(rounded, "matrixfsdp::orthogonalize::rounded", scratch.rounded);
  grow(partial_sums, "matrixfsdp::orthogonalize::partial_sums", scratch.sums);
  grow(slots, "matrixfsdp::orthogonalize::slots", newton_schulz_slot_bytes * scratch.slots);
  if (options.dtype == DType::bfloat16 && !bfloat16_products) {
    bfloat16_products = std::make_unique<linalg::Bfloat16Products>();
  }
}

template <class T>
std::int64_t NewtonSchulzWorkspace<T>::bytes() const {
  return static_cast<std::int64_t>((iterate.extent(0) + products.extent(0)) * sizeof(T) +
                                   rounded.extent(0) * sizeof(bfloat16) + partial_sums.extent(0) * sizeof(double) +
                                   slots.extent(0));
}

template <class T>
OrthogonalizeResult orthogonalize(MatrixView<const std::type_identity_t<T>> input, MatrixView<T> output,
                                  const NewtonSchulzOptions& options, NewtonSchulzWorkspace<T>& workspace) {
  const std::int64_t rows = input.rows;
  const std::int64_t cols = input.cols;
  OrthogonalizeResult result = detail::require_valid<T>(input, output, options);
  const QuinticSequence& coefficients = detail::coefficients_of(options);
  const bool in_bfloat16 = options.dtype == DType::bfloat16;
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

  detail::raise_norm(normalization, options.norm_floor);
  const std::int64_t small = std::min(rows, cols);
  if constexpr (std::is_same_v<T, float>) {
    if (in_bfloat16) {
      result.flops = detail::iterate_bfloat16(input, normalization, coefficients, options.steps, workspace, output);
    }
  }
  if (!in_bfloat16) result.flops = iterate_one<T>(input, normalization, coefficients, result, workspace, output);
  if (detail::has_diverged(detail::measure<T>(output, partial_sums), small)) {
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
