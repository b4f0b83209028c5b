#pragma once

#include <string_view>

#include <matrixfsdp/optim/optimizer.hpp>

namespace matrixfsdp {

/// Factor s(rows, cols) on the update of a rows x cols matrix.
enum class ScaleRule {
  original,         ///< sqrt(max(1, rows / cols))         (Jordan et al. 2024; default)
  match_rms_adamw,  ///< 0.2 sqrt(max(rows, cols))          (Liu et al. 2025, Moonlight)
  spectral,         ///< sqrt(rows / cols)                  (fan out over fan in)
  none,             ///< 1
};

/// "original", "match-rms-adamw", "spectral", "none". Throws InputError for any other name.
ScaleRule parse_scale_rule(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(ScaleRule rule);
/// s(rows, cols). Throws ContractError for an empty matrix.
double update_scale(ScaleRule rule, std::int64_t rows, std::int64_t cols);

/// Options of Muon, the symbols of its formulas in parentheses.
struct MuonOptions {
  /// Base learning rate (lr).
  double learning_rate = 0.02;
  double weight_decay = 0.0;  ///< decoupled, with the base learning rate: w <- w (1 - lr wd)
  /// Share of the old momentum that stays (beta).
  double momentum = 0.95;
  /// The direction is the next momentum with this gradient once more, instead of the momentum.
  bool nesterov = true;
  /// Of the update of each matrix (s).
  ScaleRule scale = ScaleRule::original;
  /// How the direction is orthogonalized.
  NewtonSchulzOptions newton_schulz;
};

/// The defaults of torch.optim.Muon: learning rate 1e-3, weight decay 0.1, momentum 0.95 with Nesterov, five standard
/// "keller-jordan" steps of a matrix divided by max(norm, 1e-7), scale "original". One difference remains: torch
/// computes the steps in bfloat16, as NewtonSchulzOptions::dtype does where it is asked for.
MuonOptions torch_muon_options();

/// Muon (Jordan et al. 2024), for each part (see matrix_parts) of each matrix:
///   m <- beta m + (1 - beta) g                       (momentum; exponential average)
///   u  = (1 - beta) g + beta m  if Nesterov, else m  (direction ...)
///   o  = orthogonalize(u)                            (... zero for a zero u)
///   w <- w (1 - lr wd);  w <- w - lr s(rows, cols) o (apply)
/// lr = schedule * learning_rate * group scale; a group's weight decay replaces the option. A part whose u is not
/// finite (or whose iteration diverges) fails its whole parameter: weight and momentum stay as they were. Scratch is
/// made at construction, for the largest parameter of each worker.
class Muon final : public Optimizer {
 public:
  /// `views`: whole matrices in any order; an empty list is legal. Their specs and storage, and the coefficients, must
  /// outlive the optimizer. Throws ContractError for a view that is not of kind matrix and whole, and as AdamW does.
  /// Throws InputError unless learning rate and weight decay are finite and not negative, 0 <= momentum < 1, there is
  /// at least one Newton-Schulz step, and the coefficients have one. `workers`: matrices that are stepped at once, see
  /// Optimizer.
  Muon(std::vector<ParameterView> views, const MuonOptions& options, int workers = 1);
  ~Muon() override;

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
