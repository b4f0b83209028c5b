#include "orthogonalize/contract.hpp"

#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::detail {
namespace {

template <class T>
bool overlaps_in_part(const MatrixView<const T>& input, const MatrixView<T>& output) {
  return input.data == output.data && input.stride != output.stride && input.rows > 1;
}

}  // namespace

const QuinticSequence& coefficients_of(const NewtonSchulzOptions& options) {
  return options.coefficients != nullptr ? *options.coefficients : quintic_sequence("polar-express");
}

template <class T>
OrthogonalizeResult require_valid(const MatrixView<const T>& input, const MatrixView<T>& output,
                                  const NewtonSchulzOptions& options) {
  if (input.rows != output.rows || input.cols != output.cols) {
    throw ContractError(fmt::format("orthogonalize: input {}x{}, output {}x{}: expected equal extents", input.rows,
                                    input.cols, output.rows, output.cols));
  }
  if (overlaps_in_part<T>(input, output)) {
    throw ContractError(
        fmt::format("orthogonalize: one matrix with strides {} and {}: expected the same view or no overlap",
                    input.stride, output.stride));
  }
  if (options.steps < 1) {
    throw ContractError(fmt::format("orthogonalize: {} steps, expected at least 1", options.steps));
  }
  const QuinticSequence& coefficients = coefficients_of(options);
  if (coefficients.steps.empty()) {
    throw ContractError(fmt::format("orthogonalize: coefficients \"{}\" have no step", coefficients.name));
  }
  if (!(options.norm_floor >= 0 && std::isfinite(options.norm_floor))) {
    throw ContractError(fmt::format("orthogonalize: norm floor {}, expected at least 0", options.norm_floor));
  }
  OrthogonalizeResult result;
  result.algorithm = resolve(options.algorithm, input.rows, input.cols, options.steps, options.dtype);
  if (options.dtype == DType::bfloat16 &&
      (result.algorithm != NewtonSchulzAlgorithm::standard || !std::is_same_v<T, float>)) {
    throw ContractError(fmt::format("orthogonalize: {} steps in bfloat16, expected standard ones of float matrices",
                                    name_of(options.algorithm)));
  }
  result.steps = options.steps;
  return result;
}

// A polar factor has the norm sqrt(m), and every named sequence stays below twice that after any number of steps.
bool has_diverged(const Normalization& result, std::int64_t smaller_extent) {
  constexpr double most = 4.0;
  if (!result.finite) return true;
  return !result.zero && 1.0 > most * std::sqrt(static_cast<double>(smaller_extent)) * result.first * result.second *
                                   result.inverse_norm;
}

double residual_of_difference(const Normalization& difference, std::int64_t extent) {
  if (difference.zero) return 0;
  return 1 / (difference.first * difference.second * difference.inverse_norm * std::sqrt(static_cast<double>(extent)));
}

template OrthogonalizeResult require_valid<float>(const MatrixView<const float>&, const MatrixView<float>&,
                                                  const NewtonSchulzOptions&);
template OrthogonalizeResult require_valid<double>(const MatrixView<const double>&, const MatrixView<double>&,
                                                   const NewtonSchulzOptions&);

}  // namespace matrixfsdp::detail
