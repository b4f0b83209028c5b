#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/tensor/tensor.hpp>

/// The seam over LAPACK, or cuSOLVER where Kokkos was built for CUDA: symmetric eigenvectors and orthonormal bases of
/// row-major matrices. Bases are rows, so that nothing is transposed for LAPACK, which is column-major. Complete when a
/// call returns. Throws ContractError as blas.hpp does, and for a matrix of another shape than is asked for;
/// DeviceError as blas.hpp does.
namespace matrixfsdp::linalg {

/// How a decomposition ended: a matrix without eigenvalues is an answer, not an exception.
struct EigenResult {
  /// What came out.
  enum class Status {
    ok,             ///< eigenvalues and vectors
    non_finite,     ///< the matrix has a NaN or an infinity: nothing was computed, it is as it was
    not_converged,  ///< LAPACK or cuSOLVER gave up: the matrix holds what came out
  };

  Status status = Status::ok;  ///< see above
  std::int64_t extent = 0;     ///< of the matrix
  int bits = 32;               ///< of an entry
  int info = 0;                ///< LAPACK's, where it gave up

  [[nodiscard]] bool ok() const { return status == Status::ok; }  ///< whether it has an answer
  /// One line: the matrix, what happened, and what was expected. Of a good one: "converged".
  [[nodiscard]] std::string message() const;
};

/// Elements of scratch: of the largest extent that it is made for. LAPACK's own minimum for ssyevd, 1 + 6 m + 2 m^2
/// reals and 3 + 5 m integers, and room for blocks of 64 columns in QR. cuSOLVER may ask for more, which this library
/// then keeps apart.
struct DecompositionScratch {
  std::int64_t reals = 0;     ///< of the matrix' type
  std::int64_t integers = 0;  ///< 32 bits each

  static DecompositionScratch for_eigenvectors(std::int64_t extent);    ///< of extent x extent
  static DecompositionScratch for_orthonormal_rows(std::int64_t rows);  ///< of so many rows
  void include(const DecompositionScratch& other);                      ///< the larger of each
  /// With reals of float.
  [[nodiscard]] std::int64_t bytes() const { return 4 * (reals + integers); }
};

/// Scratch of the decompositions below: as much as is needed, or more, which changes no bit. T is float or double.
template <class T>
class DecompositionWorkspace {
 public:
  DecompositionWorkspace();
  explicit DecompositionWorkspace(const DecompositionScratch& scratch);  ///< of these sizes

  Tensor<T> reals;       ///< LAPACK's work
  Tensor<int> integers;  ///< and iwork
};

/// A = V^T diag(values) V of a symmetric m x m matrix: A <- V, whose rows are orthonormal eigenvectors, in ascending
/// order of `values` (m). Only the lower triangle is read. LAPACK's divide and conquer (?syevd); 9 m^3 FLOPs by
/// convention (Golub and Van Loan 2013, section 8.3). Throws ContractError where the workspace is too small.
template <class T>
EigenResult eigenvectors(MatrixView<T> a, const TensorView<T>& values, const DecompositionWorkspace<T>& workspace);

/// A <- Q^T of A^T = Q R (Householder; ?geqrf and ?orgqr): rows i and above of the result span what those of A span,
/// where these are independent. R's diagonal may be negative. A is m x n, m <= n; (4 n m^2 - 4 m^3 / 3) FLOPs, which is
/// 8 m^3 / 3 of a square. Finite input has a finite, orthonormal result, whatever its rank. Throws ContractError where
/// the workspace is too small.
template <class T>
void orthonormal_rows(MatrixView<T> a, const DecompositionWorkspace<T>& workspace);

}  // namespace matrixfsdp::linalg
