#pragma once

#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>

namespace matrixfsdp {
/// Of Shampoo: see the formulas below.
struct ShampooOptions {
  double learning_rate = 1e-3;  ///< base
  double weight_decay = 0.0;    ///< decoupled, with the base learning rate: w <- w (1 - lr wd)
  double beta1 = 0.9;           ///< of the averaged gradient; 0: none
  double beta3 = -1.0;          ///< weight of the average before this step's gradient in what is multiplied; -1: beta1
  double beta2 = 0.95;          ///< of the factors; 1: their sum (AdaGrad), which needs no bias correction
  double epsilon = 1e-12;       ///< added to the eigenvalues of both factors
  bool bias_correction = true;  ///< of averages that began as zero
  /// First step that computes roots; before it the update is the grafted one (or the averaged gradient). -1: frequency.
  std::int64_t start_step = -1;
  double grafting_beta2 = 0.95;       ///< of Adam grafting's second moment
  double grafting_epsilon = 1e-8;     ///< of Adam grafting
  PreconditionerCost preconditioner;  ///< frequency, block_size, grafting; largest_dimension is the routing's
};

/// Failed roots in a row after which a matrix is not stepped any more; up to so many, its old roots serve on.
inline constexpr int tolerated_root_failures = 3;

/// Shampoo (Gupta, Koren, Singer 2018, arXiv 1802.09568; Shi et al. 2023, arXiv 2309.06497, and
/// facebookresearch/optimizers), for each block (see preconditioned_blocks) G of the scaled gradient of a matrix, in
/// its t-th step:
///   L <- b2 L + (1 - b2) G G^T;  R <- b2 R + (1 - b2) G^T G    (b2 = 1: L + G G^T, R + G^T G)
///   M' = b3 M + (1 - b3) G;      M <- b1 M + (1 - b1) G        (b1 = 0: M' = G)
///   M' <- M' / (1 - b3 b1^(t-1))                               (bias_correction)
///   roots A = (L / (1 - b2^t) + eps I)^(-1/4), B from R alike  (at start_step, then where t is a multiple of
///   frequency;
///                                                              the identity before that)
///   P = A M' B;  P <- P ||P_graft|| / (||P|| + 1e-16)          (not with Grafting::none)
///   w <- w (1 - lr wd) - lr P
/// P_graft: M' (sgd); M' / (sqrt(V / (1 - c2^t)) + c) with V <- c2 V + (1 - c2) G^2 (adam). Before start_step P is
/// P_graft, or M' without grafting. lr = schedule * learning_rate * group scale; a group's weight decay replaces the
/// option.
///
/// Roots come from eigenvectors: of A = Q diag(l) Q^T, min l < eps shifts all l by eps - min l. Where LAPACK fails in
/// float32 it is asked again in double (the one time that a step allocates); where it fails again the old root stays,
/// with a line in the log, and the fourth failed refresh in a row fails the matrix: its factors have moved on, weight
/// and averages stay. A matrix with a gradient whose squares do not sum to a finite number in float32 (or make that of
/// a factor) fails: nothing of it changes. Epsilons are absolute, so the update depends on the scale of the gradient.
/// Scratch is made at construction.
class Shampoo final : public Optimizer {
 public:
  /// `views` and throws as Muon has it. Throws InputError unless learning rate and weight decay are finite and not
  /// negative, 0 <= beta1 < 1, beta3 is so too or -1, 0 <= beta2 <= 1, 0 <= grafting_beta2 < 1, epsilons are finite and
  /// greater than 0 in float32, start_step is -1 or at least frequency, and as validate(PreconditionerCost).
  Shampoo(std::vector<ParameterView> views, const ShampooOptions& options, int workers = 1);
  ~Shampoo() override;

  StepResult step(const StepInput& input) override;
  [[nodiscard]] const std::vector<ParameterView>& views() const override;
  /// "counters" (steps, failed refreshes in a row), "momentum" (M), "second_moment" (V, Adam grafting only),
  /// "left_factor" (L), "left_root" (A), "right_factor", "right_root": of one block m x m or n x n; of several, one
  /// after the other in one dimension.
  std::vector<StateView> state() override;
  [[nodiscard]] std::int64_t state_bytes() const override;
  [[nodiscard]] std::int64_t workspace_bytes() const override;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp
