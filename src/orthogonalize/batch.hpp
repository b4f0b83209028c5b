#pragma once

#include <cstdint>
#include <span>

#include <matrixfsdp/orthogonalize/many.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

namespace matrixfsdp::detail {

/// Slots of a batch of rows x cols matrices in this build: newton_schulz_batch where the BLAS multiplies in batches
/// (linalg::batches_products), else 1, which is no batch.
std::int64_t slots_of(std::int64_t rows, std::int64_t cols, const NewtonSchulzOptions& options);

/// Of 1 to `slots` tasks with matrices of one shape, not empty: what orthogonalize does, with one call of the BLAS for
/// each product of all `slots` (linalg::detail::batched_gemm). Symmetric products are computed in full there, and their
/// lower triangle is mirrored as it is for one matrix: the results are those of orthogonalize but for rounding, and the
/// same bits where the sums of a product are in the same order. A matrix without an answer changes no other one's bits.
/// On a host BLAS, too: a product after the other.
template <class T>
void orthogonalize_batch(std::span<OrthogonalizeTask<T>* const> tasks, std::int64_t slots,
                         const NewtonSchulzOptions& options, NewtonSchulzWorkspace<T>& workspace);

/// Of each task, one after the other; where this build batches, those of one shape together, in their order.
template <class T>
void orthogonalize_each(std::span<OrthogonalizeTask<T>> tasks, const NewtonSchulzOptions& options,
                        NewtonSchulzWorkspace<T>& workspace);

}  // namespace matrixfsdp::detail
