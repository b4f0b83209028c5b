#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

/// What Shampoo and SOAP do entry by entry. Extents of all arguments are equal (unchecked). Complete when they return.
namespace matrixfsdp::detail {

void fill_identity(const MatrixView<float>& matrix);

/// to <- factor from
void scale_into(float factor, const MatrixView<const float>& from, const MatrixView<float>& to);

/// average <- decay average + fraction gradient
void average_into(float decay, float fraction, const MatrixView<const float>& gradient,
                  const MatrixView<float>& average);
/// average <- decay average + fraction gradient^2
void average_squares_into(float decay, float fraction, const MatrixView<const float>& gradient,
                          const MatrixView<float>& average);

/// gradient <- factor (decay average + fraction gradient)
void blend(float decay, float fraction, float factor, const MatrixView<const float>& average,
           const MatrixView<float>& gradient);

/// to <- first / (sqrt(second correction) + epsilon)
void divide_by_root(float correction, float epsilon, const MatrixView<const float>& first,
                    const MatrixView<const float>& second, const MatrixView<float>& to);

/// weight <- (weight - step update) decay
void subtract_then_decay(float step, float decay, const MatrixView<const float>& update,
                         const MatrixView<float>& weight);

/// values[i] <- row i of a times row i of b, summed in double.
void row_products(const MatrixView<const float>& a, const MatrixView<const float>& b, const TensorView<float>& values);

/// Row i of `to` <- row order[i] of `from`; columns alike. They do not overlap.
void gather_rows(const TensorView<int>& order, const MatrixView<const float>& from, const MatrixView<float>& to);
void gather_cols(const TensorView<int>& order, const MatrixView<const float>& from, const MatrixView<float>& to);

/// Sum of a square matrix' diagonal, in double.
double trace(const MatrixView<const float>& matrix);

}  // namespace matrixfsdp::detail
