#pragma once

#include <cstdint>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "linalg/batch.hpp"

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

/// Lowers inverse_norm to 1 / norm_floor, where the norm is smaller than that floor; 0: none.
void raise_norm(Normalization& normalization, double norm_floor);

/// Doubles of scratch that `measure` needs for a rows x cols matrix.
std::int64_t measure_scratch(std::int64_t rows, std::int64_t cols);

/// The Frobenius norm of x, summed in double in an order that depends on the extents only: not on the stride, not on
/// the number of threads. Multiplying x by a power of two multiplies the norm by it exactly.
template <class T>
Normalization measure(MatrixView<const T> x, const TensorView<double>& scratch);

/// `measure` of each of `count` matrices of rows x cols, matrices[i] the view of one: the same bits. Kernels read and
/// write `results` and `scratch` (`count` times measure_scratch) too.
template <class T, class Matrices>
void measure_batch(const Matrices& matrices, std::int64_t count, std::int64_t rows, std::int64_t cols,
                   Normalization* results, const TensorView<double>& scratch);

/// output <- input / ||input||_F, each entry rounded to T once, and again where Out is bfloat16 (of float). They may be
/// the same matrix.
template <class T, class Out>
void normalize(MatrixView<const T> input, const Normalization& normalization, MatrixView<Out> output);

/// x[i] <- inputs[i] / ||inputs[i]||_F, and zero where that is zero or not finite, or has no norm (the default
/// Normalization); such an input is not read. Out as for `normalize`.
template <class T, class Out>
void normalize_batch(const MatrixView<const T>* inputs, const Normalization* normalizations,
                     const linalg::detail::MatrixBatch<Out>& x);

/// outputs[i] <- x[i] for the first `count`, and zero for a zero input; where that is not finite it is left as it was.
template <class T>
void hand_out_batch(const linalg::detail::MatrixBatch<const T>& x, const Normalization* normalizations,
                    std::int64_t count, const MatrixView<T>* outputs);

/// output <- 0
template <class T>
void fill_zero(MatrixView<T> output);

}  // namespace matrixfsdp::detail
