#pragma once

#include <optional>
#include <set>

#include "support/oracle/model.hpp"

namespace oracle {

struct Muon {
  double learning_rate = 0.02;
  double weight_decay = 0.0;
  double momentum = 0.95;
  bool nesterov = true;
  std::string scale = "original";  ///< "original", "match-rms-adamw", "spectral", "none"
  std::string table = "polar-express";
  std::size_t steps = 5;
};

struct AdamW {
  double learning_rate = 3e-4;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
};

/// Of one parameter: a factor on the learning rate, and a weight decay in place of the optimizer's.
struct Group {
  double learning_rate_scale = 1.0;
  std::optional<double> weight_decay;
};

struct MuonState {
  std::vector<double> momentum;
};

struct AdamWState {
  std::vector<double> first;
  std::vector<double> second;
};

double update_scale(const std::string& rule, std::size_t rows, std::size_t cols);

/// One step of a matrix, block of rows by block of rows. `factor` is the schedule's.
void muon_step(const Muon& options, const Group& group, double factor, const std::vector<std::size_t>& row_blocks,
               const std::vector<double>& gradient, MuonState& state, Tensor& weight);

/// Step `t`, from 1, of any parameter.
void adamw_step(const AdamW& options, const Group& group, double factor, std::size_t t,
                const std::vector<double>& gradient, AdamWState& state, Tensor& weight);

}  // namespace oracle
