#include <cmath>

#include <gtest/gtest.h>

#include "support/oracle/optimizer.hpp"

namespace oracle {
namespace {

// beta1 0.5, beta2 0.75, gradients 2 and then -1, by hand:
//   t = 1: m 1, v 1, corrected 2 and 4: a step of 2 / 2 = 1
//   t = 2: m 0, v 0.75 + 0.25 = 1:     a step of 0, only the decay acts
//   t = 3, gradient 3: m 1.5, v 0.75 + 2.25 = 3; corrected 12 / 7 and 3 / (37 / 64) = 192 / 37
TEST(OracleAdamW, three_steps_by_hand) {
  AdamW options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.5;
  options.beta1 = 0.5;
  options.beta2 = 0.75;
  options.epsilon = 1e-12;
  AdamWState state;
  Tensor weight{{1, 1}, {4.0}};
  adamw_step(options, {}, 1.0, 1, {2.0}, state, weight);
  EXPECT_NEAR(weight.values[0], 4.0 * 0.95 - 0.1, 1e-12);
  adamw_step(options, {}, 1.0, 2, {-1.0}, state, weight);
  EXPECT_NEAR(weight.values[0], 3.7 * 0.95, 1e-12);
  adamw_step(options, {}, 0.5, 3, {3.0}, state, weight);
  EXPECT_NEAR(weight.values[0], 3.515 * 0.975 - 0.05 * (12.0 / 7.0) / std::sqrt(192.0 / 37.0), 1e-12);
}

TEST(OracleAdamW, decays_by_dimensions_or_by_group) {
  AdamW options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.5;
  const auto decayed = [&options](std::vector<std::size_t> shape, const Group& group) {
    AdamWState state;
    Tensor weight{std::move(shape), {1.0, 1.0}};
    adamw_step(options, group, 1.0, 1, {0.0, 0.0}, state, weight);
    return weight.values[0];
  };
  EXPECT_EQ(decayed({2}, {}), 1.0);
  EXPECT_NEAR(decayed({1, 2}, {}), 0.95, 1e-15);
  EXPECT_NEAR(decayed({2}, {1.0, 0.25}), 0.975, 1e-15);
  EXPECT_EQ(decayed({1, 2}, {1.0, 0.0}), 1.0);
  EXPECT_NEAR(decayed({1, 2}, {3.0, {}}), 0.85, 1e-15);
}

TEST(OracleAdamW, epsilon_stands_outside_the_root) {
  AdamW options;
  options.learning_rate = 1.0;
  options.epsilon = 1.0;
  AdamWState state;
  Tensor weight{{1}, {0.0}};
  adamw_step(options, {}, 1.0, 1, {3.0}, state, weight);
  EXPECT_NEAR(weight.values[0], -3.0 / (3.0 + 1.0), 1e-12);
}

/// One Keller-Jordan step of a row (3, 4) u: p(1) = 0.701 times (0.6, 0.8).
Muon one_step_muon() {
  Muon options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.5;
  options.momentum = 0.5;
  options.scale = "none";
  options.table = "keller-jordan";
  options.steps = 1;
  return options;
}

TEST(OracleMuon, two_steps_by_hand) {
  const Muon options = one_step_muon();
  MuonState state;
  Tensor weight{{1, 2}, {1.0, -2.0}};
  muon_step(options, {}, 1.0, {1}, {3.0, 4.0}, state, weight);
  EXPECT_NEAR(weight.values[0], 0.95 - 0.1 * 0.701 * 0.6, 1e-14);
  EXPECT_NEAR(weight.values[1], -1.9 - 0.1 * 0.701 * 0.8, 1e-14);
  EXPECT_EQ(state.momentum, (std::vector<double>{1.5, 2.0}));
  // m = (0.75, 1) + 0.5 g = (0.75, 4); u = 0.5 g + 0.5 m = (0.375, 5).
  const std::vector<double> before = weight.values;
  muon_step(options, {}, 0.5, {1}, {0.0, 6.0}, state, weight);
  EXPECT_EQ(state.momentum, (std::vector<double>{0.75, 4.0}));
  const double length = std::sqrt(0.375 * 0.375 + 25.0);
  EXPECT_NEAR(weight.values[0], 0.975 * before[0] - 0.05 * 0.701 * 0.375 / length, 1e-14);
  EXPECT_NEAR(weight.values[1], 0.975 * before[1] - 0.05 * 0.701 * 5.0 / length, 1e-14);
}

TEST(OracleMuon, without_nesterov_the_momentum_is_the_direction) {
  Muon options = one_step_muon();
  options.nesterov = false;
  options.weight_decay = 0.0;
  MuonState state;
  Tensor weight{{1, 2}, {0.0, 0.0}};
  muon_step(options, {}, 1.0, {1}, {1.0, 0.0}, state, weight);
  muon_step(options, {}, 1.0, {1}, {0.0, 1.0}, state, weight);  // m = (0.25, 0.5)
  const double length = std::sqrt(0.25 * 0.25 + 0.5 * 0.5);
  EXPECT_NEAR(weight.values[0], -0.1 * 0.701 - 0.1 * 0.701 * 0.25 / length, 1e-14);
  EXPECT_NEAR(weight.values[1], -0.1 * 0.701 * 0.5 / length, 1e-14);
}

TEST(OracleMuon, a_zero_gradient_only_decays) {
  MuonState state;
  Tensor weight{{2, 2}, {1.0, 2.0, 3.0, 4.0}};
  muon_step(one_step_muon(), {}, 1.0, {2}, {0.0, 0.0, 0.0, 0.0}, state, weight);
  EXPECT_EQ(weight.values, (std::vector<double>{0.95, 1.9, 0.95 * 3.0, 3.8}));
}

// CASES 14: per block equals parameters of their own.
TEST(OracleMuon, row_blocks_are_matrices_of_their_own) {
  Muon options;
  options.weight_decay = 0.1;
  Tensor fused{{5, 3}, {}};
  std::vector<double> gradient;
  for (int i = 0; i < 15; ++i) {
    fused.values.push_back(std::sin(1.0 + i * i));
    gradient.push_back(std::cos(2.0 * i + i * i));
  }
  Tensor top{{3, 3}, {fused.values.begin(), fused.values.begin() + 9}};
  Tensor bottom{{2, 3}, {fused.values.begin() + 9, fused.values.end()}};
  MuonState states[3];
  muon_step(options, {}, 1.0, {3, 2}, gradient, states[0], fused);
  muon_step(options, {}, 1.0, {3}, {gradient.begin(), gradient.begin() + 9}, states[1], top);
  muon_step(options, {}, 1.0, {2}, {gradient.begin() + 9, gradient.end()}, states[2], bottom);
  std::vector<double> joined = top.values;
  joined.insert(joined.end(), bottom.values.begin(), bottom.values.end());
  EXPECT_EQ(fused.values, joined);
}

TEST(OracleMuon, scale_rules) {
  EXPECT_EQ(update_scale("original", 8, 2), 2.0);
  EXPECT_EQ(update_scale("original", 2, 8), 1.0);
  EXPECT_NEAR(update_scale("match-rms-adamw", 2, 9), 0.6, 1e-15);
  EXPECT_NEAR(update_scale("match-rms-adamw", 9, 2), 0.6, 1e-15);
  EXPECT_EQ(update_scale("spectral", 2, 8), 0.5);
  EXPECT_EQ(update_scale("spectral", 8, 2), 2.0);
  EXPECT_EQ(update_scale("none", 2, 8), 1.0);
  EXPECT_THROW(update_scale("rms", 2, 8), std::invalid_argument);
}

TEST(OracleMuon, the_scale_multiplies_the_update_and_not_the_decay) {
  Muon options = one_step_muon();
  options.scale = "match-rms-adamw";  // 0.2 sqrt(2)
  MuonState state;
  Tensor weight{{1, 2}, {1.0, 1.0}};
  muon_step(options, {2.0, 0.25}, 1.0, {1}, {3.0, 4.0}, state, weight);
  EXPECT_NEAR(weight.values[0], 1.0 - 0.2 * 0.25 - 0.2 * 0.2 * std::sqrt(2.0) * 0.701 * 0.6, 1e-14);
}

}  // namespace
}  // namespace oracle
