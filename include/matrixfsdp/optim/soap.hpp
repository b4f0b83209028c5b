#pragma once

#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>

namespace matrixfsdp {
/// Of SOAP: see the formulas below.
struct SoapOptions {
  double learning_rate = 3e-3;        ///< base
  double weight_decay = 0.0;          ///< decoupled, with the base learning rate, after the update: w <- w (1 - lr wd)
  double beta1 = 0.95;                ///< of the first moment
  double beta2 = 0.95;                ///< of the second moment
  double factor_beta = -1.0;          ///< of the factors; -1: beta2
  double epsilon = 1e-8;              ///< added before the second moment's bias is corrected
  bool bias_correction = true;        ///< of both moments
  PreconditionerCost preconditioner;  ///< frequency; largest_dimension is the routing's
};

/// SOAP (Vyas et al. 2024, arXiv 2409.11321; nikhilvyas/SOAP), for each part (see matrix_parts) G of the scaled
/// gradient of a matrix. Its first call changes no weight: L = (1 - bf) G G^T, R = (1 - bf) G^T G, and the bases U, V
/// have their eigenvectors as rows, that of the largest eigenvalue first. Call t + 1, for t = 1, 2, ...:
///   G' = U G V^T
///   m <- b1 m + (1 - b1) G';  v <- b2 v + (1 - b2) G'^2
///   w <- w - lr sqrt(1 - b2^t) / (1 - b1^t) U^T (m / (sqrt(v) + eps)) V;  w <- w (1 - lr wd)
///   L <- bf L + (1 - bf) G G^T;  R <- bf R + (1 - bf) G^T G
///   where t is a multiple of frequency: the rows of U L are sorted by U L U^T's diagonal, largest first, and made
///   orthonormal (one step of power iteration, and QR): the new U. v's rows are sorted alike, m goes back through the
///   old U and into the new one; V and R alike
/// lr = schedule * learning_rate * group scale; a group's weight decay replaces the option. Where LAPACK fails to find
/// the first eigenvectors in float32 it is asked again in double (the one time that a step allocates). A matrix whose
/// eigenvectors are not found, or with a gradient whose squares do not sum to a finite number in float32, fails:
/// nothing of it changes. Scratch is made at construction.
class Soap final : public Optimizer {
 public:
  /// `views` and throws as Muon has it. Throws InputError unless learning rate and weight decay are finite and not
  /// negative, 0 <= beta < 1 for both, factor_beta is so too or -1, epsilon is finite and greater than 0 in float32,
  /// and frequency is at least 1.
  Soap(std::vector<ParameterView> views, const SoapOptions& options, int workers = 1);
  ~Soap() override;

  StepResult step(const StepInput& input) override;
  [[nodiscard]] const std::vector<ParameterView>& views() const override;
  /// "counters" (calls), "first_moment" (m), "second_moment" (v), "left_factor" (L), "left_basis" (U), "right_factor",
  /// "right_basis" (V): of one part m x m or n x n; of several, one after the other in one dimension. Both moments are
  /// those of the basis.
  std::vector<StateView> state() override;
  [[nodiscard]] std::int64_t state_bytes() const override;
  [[nodiscard]] std::int64_t workspace_bytes() const override;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp
