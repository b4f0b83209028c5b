#pragma once

#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// The element-wise phases of Muon around `orthogonalize`, on any segment, so that a strategy can put communication
/// between them. Every element is computed in float32 in a fixed order of operations: its bits do not depend on how a
/// matrix is cut. The formulas are those of Muon (muon.hpp). All three functions throw ContractError for arguments of
/// different sizes, and are complete when they return.
namespace matrixfsdp {

/// How the gradient enters the momentum. Factors are rounded to float32 once; their ranges are the caller's to check
/// (Muon does: 0 <= momentum < 1, gradient scale finite and not negative).
struct MuonMomentum {
  /// `gradient_scale` is StepInput's, `use_nesterov` MuonOptions::nesterov.
  MuonMomentum(double momentum, double gradient_scale, bool use_nesterov);

  float decay;     ///< beta
  float fraction;  ///< 1 - beta
  float scale;     ///< on the raw gradient
  /// See MuonOptions.
  bool nesterov;
};

/// Weight <- weight * decay - step * direction.
struct MuonApply {
  /// `learning_rate` with schedule and group, `update_scale` of the matrix's extents.
  MuonApply(double learning_rate, double weight_decay, double update_scale);

  float decay;  ///< 1 - lr wd
  float step;   ///< lr * scale rule
};

/// u from g and the momentum before this step, which is only read: a step that fails has changed nothing.
void muon_direction(const MuonMomentum& factors, TensorView<const float> gradient, TensorView<const float> momentum,
                    TensorView<float> direction);

/// m <- beta m + (1 - beta) g, the same bits that muon_direction has used.
void muon_momentum(const MuonMomentum& factors, TensorView<const float> gradient, TensorView<float> momentum);

/// w <- w (1 - lr wd); w <- w - lr s o. `orthogonal` and `weight` have equal extents.
void muon_apply(const MuonApply& factors, MatrixView<const float> orthogonal, MatrixView<float> weight);

}  // namespace matrixfsdp
