#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// The one seam over BLAS: a host's, or cuBLAS where Kokkos was built for CUDA. All matrices are row-major. A call with
/// no elements in the result does nothing, and a product is complete when the call returns. Throws ContractError for
/// extents that do not fit each other, for an extent or stride beyond int, which BLAS counts in, and for a stride below
/// the columns of a matrix with more than one row; DeviceError where a library of the device fails. Unchecked: C
/// overlaps neither A nor B.
namespace matrixfsdp::linalg {

/// How an operand enters a product.
enum class Op {
  none,       ///< as it is
  transpose,  ///< its transpose
};

/// C <- alpha op(A) op(B) + beta C, with op(A) m x k, op(B) k x n, C m x n. beta = 0 overwrites C (NaN included).
/// 2 m n k FLOPs. T is float or double.
template <class T>
void gemm(Op op_a, Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
          MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c);

/// C <- alpha op(A) op(A)^T + beta C, with op(A) m x k, C m x m. One triangle is computed (m (m + 1) k FLOPs) and
/// mirrored, so C is exactly symmetric; of what C held only its lower triangle is read. T is float or double.
template <class T>
void syrk(Op op_a, T alpha, MatrixView<const std::type_identity_t<T>> a, T beta, MatrixView<std::type_identity_t<T>> c);

/// As syrk, without the mirror: the upper triangle of C is neither read nor written.
template <class T>
void syrk_lower(Op op_a, T alpha, MatrixView<const std::type_identity_t<T>> a, T beta,
                MatrixView<std::type_identity_t<T>> c);

/// The upper triangle of a square C <- its lower one. T is float, double or bfloat16. Throws ContractError for another
/// shape.
template <class T>
void mirror(MatrixView<T> c);

/// C <- A B of square A and B of one extent m whose product is known to be symmetric (two polynomials of one symmetric
/// matrix). The lower triangle is computed, by halving: of a square on the diagonal its lower left quarter is one gemm,
/// the two others are halved again, down to 96 rows, which are one gemm each; then it is mirrored, so C is exactly
/// symmetric. BLAS has no fast routine for this (gemmt is slower than gemm in OpenBLAS). symmetric_product_flops(m)
/// FLOPs: about m^3. T is float or double.
template <class T>
void symmetric_product(MatrixView<const std::type_identity_t<T>> a, MatrixView<const std::type_identity_t<T>> b,
                       MatrixView<std::type_identity_t<T>> c);
/// Of symmetric_product; 0 for an extent of 0 or less.
std::int64_t symmetric_product_flops(std::int64_t extent);

/// Threads that each following product uses in this process. The bits of a product depend on it (edge tiles of OpenBLAS
/// do), so it is a setting of the run and never derived from W. A BLAS without such a call keeps its own setting.
/// Throws ContractError for less than one.
void set_threads(int threads);

/// What products of float are computed with.
enum class Math {
  float32,  ///< every entry as it is
  tf32,     ///< entries rounded to 10 bits of mantissa, products summed in float32: tensor cores of CUDA devices
};
/// "float32" or "tf32".
std::string_view name_of(Math math);

/// Why this build on this device has no tf32, as one clause: no CUDA, or a device of a compute capability below 8.0.
/// Empty where it has it.
std::string tf32_obstacle();

/// Throws InputError "<user>: <obstacle>" for a math that has one.
void require_math(Math math, std::string_view user);

/// Of each following gemm, syrk and symmetric product of float of this thread; float32 until it is called. Kokkos must
/// be running. Throws InputError as require_math does.
void set_math(Math math);

/// Whether the BLAS of this build multiplies many matrices of one shape in one call, which small ones need to fill a
/// device: cuBLAS. orthogonalize_many does batches then, and threads of the host (workers.hpp) have nothing to do.
bool batches_products();

/// "OpenBLAS 0.3.21 ...", or "cuBLAS 13.0.2, cuSOLVER 12.0.4": for --version.
std::string blas_description();

}  // namespace matrixfsdp::linalg
