#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/reference_linalg.hpp"

/// Muon and AdamW in double, by the book. Includes none of the modules that it judges.
namespace matrixfsdp::reference {

/// Rows [row, row + rows) and columns [col, col + cols) of a rows_total x stride parameter, by its first element.
struct Block {
  std::int64_t offset;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
};

struct MuonSettings {
  Steps steps;
  double learning_rate;
  double weight_decay;
  double momentum;
  bool nesterov;
  double (*scale)(double rows, double cols);
};

inline double scale_original(double rows, double cols) {
  return std::sqrt(rows > cols ? rows / cols : 1.0);
}
inline double scale_match_rms_adamw(double rows, double cols) {
  return 0.2 * std::sqrt(rows > cols ? rows : cols);
}
inline double scale_spectral(double rows, double cols) {
  return std::sqrt(rows / cols);
}
inline double scale_none(double /*rows*/, double /*cols*/) {
  return 1.0;
}

class Muon {
 public:
  Muon(MuonSettings settings, std::vector<double> weight, std::vector<Block> blocks)
      : settings_(std::move(settings)),
        weight_(std::move(weight)),
        momentum_(weight_.size(), 0.0),
        blocks_(std::move(blocks)) {}

  void step(const std::vector<double>& gradient, double gradient_scale = 1.0, double schedule = 1.0) {
    const double beta = settings_.momentum;
    const double lr = settings_.learning_rate * schedule;
    std::vector<double> direction(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double g = gradient_scale * gradient[i];
      momentum_[i] = beta * momentum_[i] + (1.0 - beta) * g;
      direction[i] = settings_.nesterov ? (1.0 - beta) * g + beta * momentum_[i] : momentum_[i];
      weight_[i] *= 1.0 - lr * settings_.weight_decay;
    }
    for (const Block& block : blocks_) {
      Dense u(block.rows, block.cols);
      const auto at = [&block](std::int64_t row, std::int64_t col) {
        return static_cast<std::size_t>(block.offset + row * block.stride + col);
      };
      for (std::int64_t row = 0; row < block.rows; ++row) {
        for (std::int64_t col = 0; col < block.cols; ++col)
          u(row, col) = direction[at(row, col)];
      }
      const Dense o = newton_schulz(u, settings_.steps);
      const double scale = settings_.scale(static_cast<double>(block.rows), static_cast<double>(block.cols));
      for (std::int64_t row = 0; row < block.rows; ++row) {
        for (std::int64_t col = 0; col < block.cols; ++col)
          weight_[at(row, col)] -= lr * scale * o(row, col);
      }
    }
  }

  [[nodiscard]] const std::vector<double>& weight() const { return weight_; }
  [[nodiscard]] const std::vector<double>& momentum() const { return momentum_; }

 private:
  MuonSettings settings_;
  std::vector<double> weight_;
  std::vector<double> momentum_;
  std::vector<Block> blocks_;
};

struct AdamWSettings {
  double learning_rate;
  double weight_decay;
  double beta1;
  double beta2;
  double epsilon;
};

class AdamW {
 public:
  AdamW(AdamWSettings settings, std::vector<double> weight)
      : settings_(settings), weight_(std::move(weight)), first_(weight_.size(), 0.0), second_(weight_.size(), 0.0) {}

  void step(const std::vector<double>& gradient, int t, double gradient_scale = 1.0, double schedule = 1.0) {
    const double lr = settings_.learning_rate * schedule;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const double g = gradient_scale * gradient[i];
      first_[i] = settings_.beta1 * first_[i] + (1.0 - settings_.beta1) * g;
      second_[i] = settings_.beta2 * second_[i] + (1.0 - settings_.beta2) * g * g;
      const double m = first_[i] / (1.0 - std::pow(settings_.beta1, t));
      const double v = second_[i] / (1.0 - std::pow(settings_.beta2, t));
      weight_[i] *= 1.0 - lr * settings_.weight_decay;
      weight_[i] -= lr * m / (std::sqrt(v) + settings_.epsilon);
    }
  }

  [[nodiscard]] const std::vector<double>& weight() const { return weight_; }
  [[nodiscard]] const std::vector<double>& first_moment() const { return first_; }
  [[nodiscard]] const std::vector<double>& second_moment() const { return second_; }

 private:
  AdamWSettings settings_;
  std::vector<double> weight_;
  std::vector<double> first_;
  std::vector<double> second_;
};

}  // namespace matrixfsdp::reference
