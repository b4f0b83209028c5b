#pragma once

#include <array>
#include <cstdint>

#include <matrixfsdp/linalg/singular_values.hpp>

namespace matrixfsdp::linalg {

inline constexpr std::int64_t most_bidiagonal = 64;

/// Upper bidiagonal, small, built from its first row on.
class Bidiagonal {
 public:
  /// The next element of the diagonal; `above` says what stands above it, 0 unless told.
  void append(double diagonal);
  /// Stands above the element that is appended next.
  void above(double value) { above_ = value; }
  /// One-sided Jacobi (Hestenes 1958): its columns are rotated until they are orthogonal; their norms are the values.
  /// NaN for both where a value is not finite.
  [[nodiscard]] SingularValues singular_values() const;

 private:
  std::int64_t size_ = 0;
  double above_ = 0;
  std::array<double, most_bidiagonal> diagonal_{};
  std::array<double, most_bidiagonal> super_{};  ///< above the diagonal's element of the same number
};

}  // namespace matrixfsdp::linalg
