#pragma once

#include <cstdint>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "orthogonalize/normalize.hpp"

/// What orthogonalizing one matrix and a batch of them has to check and say alike.
namespace matrixfsdp::detail {

/// A result with algorithm and steps. Throws ContractError as orthogonalize says.
template <class T>
OrthogonalizeResult require_valid(const MatrixView<const T>& input, const MatrixView<T>& output,
                                  const NewtonSchulzOptions& options);

/// The sequence that the options mean.
const QuinticSequence& coefficients_of(const NewtonSchulzOptions& options);

/// Of a result, whose smaller extent this is: see OrthogonalizeStatus.
bool has_diverged(const Normalization& result, std::int64_t smaller_extent);

/// ||D||_F / sqrt(m) of D = O O^T - I, m x m.
double residual_of_difference(const Normalization& difference, std::int64_t extent);

}  // namespace matrixfsdp::detail
