#pragma once

#include "support/oracle/optimizer.hpp"
#include "support/oracle/schedule.hpp"
#include "support/oracle/transformer.hpp"

namespace oracle {

struct Options {
  bool muon_for_matrices = true;  ///< false: AdamW for everything
  Muon muon;
  AdamW adamw;
  Schedule schedule;
  double max_norm = 0.0;                ///< 0: no clipping
  bool bfloat16_weights = false;        ///< forward and backward see rounded weights; the optimizer does not
  bool bfloat16_gradients = false;      ///< of each micro-batch, rounded before they are summed
  std::set<std::string> frozen;         ///< names
  std::map<std::string, Group> groups;  ///< by parameter name
};

struct StepResult {
  double loss;       ///< mean over all tokens of the global batch, before the step
  double grad_norm;  ///< of the raw gradient of that mean, over everything that is trained
};

/// Trains from `initial` parameters. Linear maps of blocks with at least two rows and two columns are matrices; the
/// rest is AdamW's.
class Trainer {
 public:
  Trainer(Model model, Options options, Parameters initial);

  /// One optimizer step. Micro-batches are `micro_batch` consecutive sequences, summed in their order.
  StepResult step(const std::vector<Sequence>& batch, std::size_t micro_batch);

  [[nodiscard]] const Parameters& parameters() const { return parameters_; }

 private:
  void update(const ParameterInfo& info, const std::vector<double>& gradient, double learning_rate_factor);

  Model model_;
  Options options_;
  Parameters parameters_;
  std::vector<ParameterInfo> list_;
  std::size_t steps_ = 0;
  std::map<std::string, MuonState> muon_;
  std::map<std::string, AdamWState> adamw_;
};

}  // namespace oracle
