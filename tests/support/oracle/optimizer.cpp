#include "support/oracle/optimizer.hpp"

#include <cmath>
#include <stdexcept>

#include "support/oracle/newton_schulz.hpp"

namespace oracle {

double update_scale(const std::string& rule, std::size_t rows, std::size_t cols) {
  const auto height = static_cast<double>(rows);
  const auto width = static_cast<double>(cols);
  if (rule == "original") return std::sqrt(std::fmax(1.0, height / width));
  if (rule == "match-rms-adamw") return 0.2 * std::sqrt(std::fmax(height, width));
  if (rule == "spectral") return std::sqrt(height / width);
  if (rule == "none") return 1.0;
  throw std::invalid_argument("oracle: scale rule " + rule);
}

void muon_step(const Muon& options, const Group& group, double factor, const std::vector<std::size_t>& row_blocks,
               const std::vector<double>& gradient, MuonState& state, Tensor& weight) {
  const double beta = options.momentum;
  const double rate = factor * options.learning_rate * group.learning_rate_scale;
  const double decay = group.weight_decay.value_or(options.weight_decay);
  const std::size_t cols = weight.shape[1];
  state.momentum.resize(gradient.size(), 0.0);
  std::size_t first_row = 0;
  for (const std::size_t rows : row_blocks) {
    Matrix u(rows, cols);
    for (std::size_t i = 0; i < rows * cols; ++i) {
      const double g = gradient[first_row * cols + i];
      double& m = state.momentum[first_row * cols + i];
      m = beta * m + (1.0 - beta) * g;
      u.values[i] = options.nesterov ? (1.0 - beta) * g + beta * m : m;
    }
    const Matrix o = newton_schulz(u, options.table, options.steps);
    const double scale = update_scale(options.scale, rows, cols);
    for (std::size_t i = 0; i < rows * cols; ++i) {
      double& w = weight.values[first_row * cols + i];
      w = w * (1.0 - rate * decay) - rate * scale * o.values[i];
    }
    first_row += rows;
  }
}

void adamw_step(const AdamW& options, const Group& group, double factor, std::size_t t,
                const std::vector<double>& gradient, AdamWState& state, Tensor& weight) {
  const double rate = factor * options.learning_rate * group.learning_rate_scale;
  const double decay = group.weight_decay.value_or(weight.shape.size() >= 2 ? options.weight_decay : 0.0);
  const double correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(t));
  const double correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(t));
  state.first.resize(gradient.size(), 0.0);
  state.second.resize(gradient.size(), 0.0);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    state.first[i] = options.beta1 * state.first[i] + (1.0 - options.beta1) * gradient[i];
    state.second[i] = options.beta2 * state.second[i] + (1.0 - options.beta2) * gradient[i] * gradient[i];
    const double step = (state.first[i] / correction1) / (std::sqrt(state.second[i] / correction2) + options.epsilon);
    weight.values[i] = weight.values[i] * (1.0 - rate * decay) - rate * step;
  }
}

}  // namespace oracle
