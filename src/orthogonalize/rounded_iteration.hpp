#pragma once

#include <cstdint>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "linalg/batch.hpp"
#include "orthogonalize/normalize.hpp"

namespace matrixfsdp::detail {

/// The standard iteration in bfloat16 (NewtonSchulzOptions::dtype); the result in float32. The workspace has room for
/// it. Returns the FLOPs of the products.
std::int64_t iterate_bfloat16(MatrixView<const float> input, const Normalization& normalization,
                              const QuinticSequence& coefficients, int steps, NewtonSchulzWorkspace<float>& workspace,
                              MatrixView<float> output);

/// The same of a batch, as normalize_batch takes its inputs. Returns the FLOPs of one matrix.
std::int64_t iterate_bfloat16_batch(const MatrixView<const float>* inputs, const Normalization* normalizations,
                                    const QuinticSequence& coefficients, int steps,
                                    NewtonSchulzWorkspace<float>& workspace,
                                    const linalg::detail::MatrixBatch<float>& output);

}  // namespace matrixfsdp::detail
