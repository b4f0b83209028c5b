#pragma once

#include <cstdint>

#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/workers.hpp>

/// Products of blas.hpp in pieces that workers share (Workers::share), cut by the extents alone: the same bits with any
/// number of workers. They do the FLOPs of those that are not cut. T is float or double.
namespace matrixfsdp::linalg::detail {

/// Pieces of `flops` FLOPs whose longest extent is `extent`: one up to twice the work that is worth another thread.
std::int64_t piece_count(std::int64_t flops, std::int64_t extent);

/// C <- A B, by rows or columns of C, whichever are more.
template <class T>
void shared_gemm(Workers& workers, MatrixView<const std::type_identity_t<T>> a,
                 MatrixView<const std::type_identity_t<T>> b, MatrixView<std::type_identity_t<T>> c);

/// As syrk_lower with alpha 1 and beta 0, by rows of C: of each piece what is left of the diagonal is a gemm.
template <class T>
void shared_syrk_lower(Workers& workers, Op op_a, MatrixView<const std::type_identity_t<T>> a,
                       MatrixView<std::type_identity_t<T>> c);

/// As symmetric_product, by its blocks, the large ones cut again.
template <class T>
void shared_symmetric_product(Workers& workers, MatrixView<const std::type_identity_t<T>> a,
                              MatrixView<const std::type_identity_t<T>> b, MatrixView<std::type_identity_t<T>> c);

}  // namespace matrixfsdp::linalg::detail
