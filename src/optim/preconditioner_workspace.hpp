#pragma once

#include <cfloat>
#include <cstdint>
#include <span>
#include <vector>

#include <matrixfsdp/linalg/eigen.hpp>
#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>

#include "orthogonalize/normalize.hpp"

namespace matrixfsdp::detail {

/// Scratch of Shampoo and SOAP, of one worker: sized once for the largest of its matrices.
class PreconditionerWorkspace {
 public:
  PreconditionerWorkspace() = default;
  /// `stepped`: numbers of views.
  PreconditionerWorkspace(const std::vector<ParameterView>& views, std::span<const std::size_t> stepped,
                          MatrixOptimizer optimizer, const PreconditionerCost& cost) {
    for (const std::size_t index : stepped)
      scratch_.include(preconditioner_scratch(*views[index].spec, optimizer, cost));
    matrices_ = make_tensor<float>("matrixfsdp::optim::matrices", scratch_.matrices);
    squares_ = make_tensor<float>("matrixfsdp::optim::squares", scratch_.squares);
    values_ = make_tensor<float>("matrixfsdp::optim::values", scratch_.values);
    order_ = make_tensor<int>("matrixfsdp::optim::order", scratch_.order);
    sums_ = make_tensor<double>("matrixfsdp::optim::sums", scratch_.sums);
    decompositions_ = linalg::DecompositionWorkspace<float>({scratch_.reals, scratch_.integers});
  }

  /// The k-th of those of this shape. Another shape's share the memory.
  [[nodiscard]] MatrixView<float> matrix(int k, std::int64_t rows, std::int64_t cols) const {
    return {matrices_.data() + k * rows * cols, rows, cols};
  }
  [[nodiscard]] MatrixView<float> square(int k, std::int64_t extent) const {
    return {squares_.data() + k * extent * extent, extent, extent};
  }
  [[nodiscard]] TensorView<float> values(std::int64_t count) const { return slice(values_, 0, count); }
  [[nodiscard]] TensorView<int> order(std::int64_t count) const { return slice(order_, 0, count); }
  [[nodiscard]] const linalg::DecompositionWorkspace<float>& decompositions() const { return decompositions_; }

  /// ||x||_F^2, in double; infinity where there is a NaN.
  [[nodiscard]] double square_sum(const MatrixView<const float>& x) const {
    const Normalization norm = measure<float>(x, sums_);
    if (!norm.finite) return HUGE_VAL;
    return norm.zero ? 0.0 : 1.0 / (norm.inverse_norm * norm.inverse_norm);
  }

  /// Whether the squares of the scaled gradient, and `more`, sum to a finite number in float32: no factor and no second
  /// moment can overflow then.
  [[nodiscard]] bool squares_fit(const TensorView<const float>& gradient, double scale, double more) const {
    const MatrixView<const float> row(gradient.data(), 1, static_cast<std::int64_t>(gradient.extent(0)));
    const double sum = square_sum(row);
    return sum * scale * scale + more <= static_cast<double>(FLT_MAX) && sum < HUGE_VAL;
  }

  [[nodiscard]] std::int64_t bytes() const { return scratch_.bytes(); }

 private:
  PreconditionerScratch scratch_;
  Tensor<float> matrices_;
  Tensor<float> squares_;
  Tensor<float> values_;
  Tensor<int> order_;
  Tensor<double> sums_;
  linalg::DecompositionWorkspace<float> decompositions_;
};

/// A matrix whose turn it is, with the scratch of the worker that steps it.
struct Turn {
  std::size_t index;  ///< of its view
  const PreconditionerWorkspace& workspace;
};

inline std::int64_t bytes_of(const std::vector<PreconditionerWorkspace>& workspaces) {
  std::int64_t bytes = 0;
  for (const PreconditionerWorkspace& workspace : workspaces)
    bytes += workspace.bytes();
  return bytes;
}

}  // namespace matrixfsdp::detail
