#pragma once

#include <cstdint>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "orthogonalize/normalize.hpp"

namespace matrixfsdp::detail {

/// The standard iteration in bfloat16 (NewtonSchulzOptions::dtype); the result in float32. The workspace has room for
/// it. Returns the FLOPs of the products.
std::int64_t iterate_bfloat16(MatrixView<const float> input, const Normalization& normalization,
                              const QuinticSequence& coefficients, int steps, NewtonSchulzWorkspace<float>& workspace,
                              MatrixView<float> output);

}  // namespace matrixfsdp::detail
