#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::linalg {

/// Estimates from inside the spectrum: largest <= the largest singular value, smallest >= the smallest one.
struct SingularValues {
  double largest = 0;      ///< from below
  double smallest = 0;     ///< from above
  std::int64_t steps = 0;  ///< taken; as many as the smaller extent: both are exact but for rounding
};

/// Scratch that is reused from matrix to matrix: grows to the largest one, never shrinks.
struct SingularValueWorkspace {
  /// Empty. Not inline, as that of NewtonSchulzWorkspace.
  SingularValueWorkspace();
  /// Makes room for a rows x cols matrix, rows, cols and steps >= 0.
  void reserve(std::int64_t rows, std::int64_t cols, std::int64_t steps);
  [[nodiscard]] std::int64_t bytes() const;  ///< of `vectors`

  Tensor<double> vectors;  ///< steps of the smaller extent, then steps of the larger one
};

/// Golub-Kahan-Lanczos bidiagonalization (Golub and Kahan 1965; Golub and Van Loan, Matrix Computations, 10.4) of the
/// side with rows >= cols: min(steps, smaller extent, 64) steps from a vector of random normals, the same for every
/// matrix of that extent, in double, each vector orthogonalized against all before it. With A V = U B the singular
/// values of the bidiagonal B, which one-sided Jacobi finds, are those of A on the space of V, so that they lie between
/// A's. The largest is found within a few steps; the smallest is an upper bound, close where the spectrum is narrow (an
/// orthogonalized matrix) or the extent small. Ends early, with smallest = 0, where the space holds a vector that A
/// takes to zero, and where the space is invariant. 4 rows cols FLOPs a step. The bits depend on the values alone.
/// Values that are not finite give NaN; an empty matrix or steps < 1: zeros.
SingularValues estimate_singular_values(MatrixView<const float> matrix, std::int64_t steps,
                                        SingularValueWorkspace& workspace);

}  // namespace matrixfsdp::linalg
