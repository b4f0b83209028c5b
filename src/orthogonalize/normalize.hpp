#pragma once

#include <cstdint>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::detail {

/// x -> ((x * first) * second) * inverse_norm, in double. first and second are powers of two whose product brings the
/// largest magnitude into [1/2, 1); both are 1 for float, whose squares neither overflow nor vanish in double.
struct Normalization {
  double first = 1.0;
  double second = 1.0;
  double inverse_norm = 0.0;
  bool finite = true;
  bool zero = true;
};

/// Doubles of scratch that `measure` needs for a rows x cols matrix.
std::int64_t measure_scratch(std::int64_t rows, std::int64_t cols);

/// The Frobenius norm of x, summed in double in an order that depends on the extents only: not on the stride, not on
/// the number of threads. Multiplying x by a power of two multiplies the norm by it exactly.
template <class T>
Normalization measure(MatrixView<const T> x, const TensorView<double>& scratch);

/// output <- input / ||input||_F, each entry rounded to T once, and again where Out is bfloat16 (of float). They may be
/// the same matrix.
template <class T, class Out>
void normalize(MatrixView<const T> input, const Normalization& normalization, MatrixView<Out> output);

/// output <- 0
template <class T>
void fill_zero(MatrixView<T> output);

}  // namespace matrixfsdp::detail
