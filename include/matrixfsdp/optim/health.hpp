#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/linalg/singular_values.hpp>
#include <matrixfsdp/optim/optimizer.hpp>

/// How the matrices of a run are doing: measured by their owners, inside a step.
namespace matrixfsdp {

/// Lanczos steps of the singular values' estimates (linalg/singular_values.hpp).
inline constexpr std::int64_t health_steps = 16;

/// Of a matrix, or NaN where there was none.
struct MatrixFigures {
  double norm = std::numeric_limits<double>::quiet_NaN();        ///< Frobenius, in double
  double largest = std::numeric_limits<double>::quiet_NaN();     ///< singular value, and the smallest:
  double smallest = std::numeric_limits<double>::quiet_NaN();    ///< estimates: see linalg::estimate_singular_values
  double non_finite = std::numeric_limits<double>::quiet_NaN();  ///< number of values that are NaN or infinite
};

/// Of one matrix part, as the step found its gradient and weight, and of the update that the step was about to apply.
struct MatrixHealth {
  MatrixFigures gradient;  ///< before it is scaled by clipping
  MatrixFigures weight;    ///< before the update
  /// Before learning rate and scale. NaN where the matrix is on AdamW or stepped in blocks, or its step failed.
  MatrixFigures update;
  double residual = std::numeric_limits<double>::quiet_NaN();  ///< ||O O^T - I||_F / sqrt(m) of the update O
};

/// Norm in double, in a fixed order; estimates from `health_steps` steps, NaN where a value is not finite.
MatrixFigures measure_matrix(MatrixView<const float> matrix, linalg::SingularValueWorkspace& workspace);

/// Measures every matrix part that a rank steps. Allocates where it is made, and nothing in a step.
class HealthProbe final : public StepObserver {
 public:
  /// `views`: those of the optimizer, in canonical order; what is no matrix is left out.
  explicit HealthProbe(const std::vector<ParameterView>& views);

  /// Forgets the step before.
  void begin_step();
  void before_step(const ParameterView& view) override;
  void update(const ParameterView& view, const MatrixPart& part, MatrixView<const float> update,
              double residual) override;

  /// One for each part of each matrix, in canonical order; NaN for what has not been seen since begin_step.
  [[nodiscard]] const std::vector<MatrixHealth>& parts() const { return parts_; }
  [[nodiscard]] std::int64_t bytes() const { return workspace_.bytes(); }  ///< of scratch

 private:
  struct Matrix {
    std::size_t unit;
    std::size_t index;
    std::size_t first;  ///< in parts_
    std::vector<MatrixPart> parts;
  };
  [[nodiscard]] const Matrix* find(const ParameterView& view) const;

  std::vector<Matrix> matrices_;
  std::vector<MatrixHealth> parts_;
  linalg::SingularValueWorkspace workspace_;
};

/// What makes a step fail, on the rank that holds it.
struct NonFinite {
  std::string parameter;   ///< its name
  std::string quantity;    ///< "gradient", "weight", the name of a state ("momentum"), or "update"
  std::int64_t count = 0;  ///< of values that are not finite; 0 of an update that cannot be made from finite values
};

/// Gradients, weights and states of one unit (or of all) that hold values that are not finite; and an update for each
/// name of `failed` (StepResult) of which all are finite.
std::vector<NonFinite> non_finite_values(Optimizer& optimizer, std::optional<std::size_t> unit,
                                         const std::vector<std::string>& failed = {});

}  // namespace matrixfsdp
