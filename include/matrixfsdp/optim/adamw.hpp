#pragma once

#include <matrixfsdp/optim/optimizer.hpp>

namespace matrixfsdp {

/// Options of AdamW, the symbols of its formulas in parentheses.
struct AdamWOptions {
  /// Base learning rate (lr).
  double learning_rate = 3e-4;
  double weight_decay = 0.0;  ///< decoupled; only on parameters of two or more dimensions (norms and biases never
                              ///< decay) unless a group says so
  /// Share of the old first moment that stays (b1).
  double beta1 = 0.9;
  /// Share of the old second moment that stays (b2).
  double beta2 = 0.95;
  /// Added to the root of the second moment (eps).
  double epsilon = 1e-8;
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), element by element:
///   m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
///   w <- w (1 - lr wd);      w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
/// with t = StepInput::step and lr = schedule * learning_rate * group scale. Works on any segment, so tails may be cut
/// over ranks. A block of norm_block elements (see plan.hpp) with a gradient whose square is not finite in float32
/// fails: its weights and moments stay as they were, those of the parameter's other blocks move, and `failed` names the
/// parameter.
class AdamW final : public Optimizer {
 public:
  /// `views`: segments in any order; an empty list is legal. Their specs and storage must outlive the optimizer. Throws
  /// ContractError for a view without a spec, of a frozen parameter, with an interval outside of its parameter or with
  /// tensors of another size, and for views that overlap. Throws InputError unless learning rate and weight decay are
  /// finite and not negative, 0 <= beta < 1 for both, and epsilon is finite and greater than 0 in float32.
  AdamW(std::vector<ParameterView> views, const AdamWOptions& options);
  ~AdamW() override;

  StepResult step(const StepInput& input) override;
  [[nodiscard]] const std::vector<ParameterView>& views() const override;
  std::vector<StateView> state() override;
  [[nodiscard]] std::int64_t state_bytes() const override;
  [[nodiscard]] std::int64_t workspace_bytes() const override;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp
