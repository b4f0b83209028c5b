#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>
#include <matrixfsdp/parameter/parameter_view.hpp>

/// @file
/// Optimizers act on what this rank holds, and on nothing else: this module cannot include comm.
namespace matrixfsdp {

/// One optimizer state tensor of one parameter segment, for checkpoints: /optimizer/PARAMETER/name.
struct StateView {
  std::size_t view = 0;             ///< index into the optimizer's views
  std::string name;                 ///< "momentum"; AdamW: "first_moment", "second_moment"
  TensorView<float> values;         ///< one per element of the view, or as many as `shape` says
  std::string optimizer;            ///< kind that keeps it: "muon", "shampoo", "soap", "adamw"
  std::optional<Shape> shape = {};  ///< where it is not the parameter's: of the whole state, and the view is whole
};

/// Sees a step from inside, on the rank that takes it, in the order in which it is taken. Reads only: the bits of the
/// step do not depend on whether somebody watches. Called on the caller's thread: where several workers step matrices,
/// a step that is watched takes one after the other (and its products several threads).
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// Gradient and weight of the view are as the step finds them.
  virtual void before_step(const ParameterView& view) = 0;
  /// What the matrix optimizer is about to apply to a part of the view (of matrix_parts), before learning rate and
  /// scale; its residual of orthogonality (OrthogonalizeResult::residual), NaN where there is none. Not where Shampoo
  /// or SOAP step the part in blocks.
  virtual void update(const ParameterView& view, const MatrixPart& part, MatrixView<const float> update,
                      double residual) = 0;
};

/// What is the same for all parameters of one step.
struct StepInput {
  double gradient_scale = 1.0;           ///< from clipping; multiplies the raw gradient before momentum
  double schedule = 1.0;                 ///< factor on every base learning rate
  std::int64_t step = 1;                 ///< 1 for the first step that is taken (AdamW's bias correction)
  StepObserver* observer = nullptr;      ///< null: nobody watches, and nothing is computed for it
  std::optional<std::size_t> unit = {};  ///< step the views of this unit only
};

/// What the whole step of a matrix parameter took.
struct MatrixSeconds {
  const ParameterSpec* parameter = nullptr;  ///< of the optimizer's views
  /// Wall time.
  double seconds = 0;
};

/// What a step did, on this rank.
struct StepResult {
  /// Parts (see matrix_parts), not parameters, that the matrix optimizer stepped: Muon orthogonalized them.
  std::int64_t matrices_orthogonalized = 0;
  /// As step_flops counts them, of parameters that were stepped.
  std::int64_t flops = 0;
  std::vector<std::string> failed;  ///< parameters that were left unchanged (weight and state), e.g. non-finite values
  std::vector<MatrixSeconds> seconds;  ///< of each matrix parameter that was stepped, in canonical order
};

/// Adds what one part of a step did to what others did.
void append(StepResult part, StepResult& whole);

/// Interface of all optimizers. State exists from construction, as zeros (Shampoo's roots: as identity), and which
/// there is does not depend on gradients. The phases
/// of a Muon step are functions of their own too (muon_phases.hpp), so that a baseline can put communication between
/// them.
///
/// Muon, Shampoo and SOAP step matrices on `workers` threads (linalg::Workers), the caller's among them: largest first,
/// each to the worker with the least to do (WorkerLists), with scratch of its own that is made at construction. A
/// product uses one thread whatever linalg::set_threads says; large ones of Muon are cut into pieces, by shape alone,
/// with which workers help that have no matrix left. So the bits do not depend on `workers`, and one worker starts no
/// thread. An exception that the step of a matrix throws comes out of step() with the matrix's name before it; matrices
/// of other workers may have been stepped then. Where kernels run on a device there is one worker, whatever is asked,
/// and matrices are stepped one after the other in canonical order; but Muon steps those of one shape together where
/// orthogonalize_many batches them, with scratch for a whole batch, whatever the rank has. A batch's time is shared out
/// evenly among its matrices, and what its step throws has the name of the first. Bits do not depend on which matrices
/// are stepped together: a watched step, and one of a unit, have the same.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One step for all views, or for those of input.unit: all units, each once, in any order, are one step, bit for bit.
  /// Gradients are read only. Throws ContractError for step < 1, and for a gradient scale or schedule that is negative
  /// or not finite; nothing has changed then. Complete when it returns.
  virtual StepResult step(const StepInput& input) = 0;

  /// Views this optimizer steps, in canonical order (unit, index, first element).
  [[nodiscard]] virtual const std::vector<ParameterView>& views() const = 0;

  /// State in a fixed order (by view, then as StateView lists the names); the key set depends on the views only.
  /// Writing to the values is how a checkpoint is loaded.
  virtual std::vector<StateView> state() = 0;

  /// Bytes of state.
  [[nodiscard]] virtual std::int64_t state_bytes() const = 0;
  /// Bytes of scratch, which does not belong in a checkpoint.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
};

}  // namespace matrixfsdp
