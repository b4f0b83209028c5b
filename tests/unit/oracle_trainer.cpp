#include <gtest/gtest.h>

#include "support/oracle/trainer.hpp"
#include "unit/oracle_fixture.hpp"

namespace oracle {
namespace {

std::vector<Sequence> four_sequences() {
  return {{3, 1, 4, 1, 5, 9, 2}, {6, 5, 3, 5, 8, 9, 7}, {9, 3, 2, 3, 8, 4, 6}, {2, 6, 4, 3, 3, 8, 3}};
}

double norm_of(const Parameters& gradient, const std::set<std::string>& without = {}) {
  double square = 0.0;
  for (const auto& [name, tensor] : gradient) {
    for (const double value : tensor.values)
      square += without.count(name) != 0 ? 0.0 : value * value;
  }
  return std::sqrt(square);
}

TEST(OracleTrainer, reports_mean_loss_and_raw_gradient_norm) {
  const Model model = test::small_llama();
  const Parameters initial = test::formula_parameters(model);
  Parameters gradient = zeros_like(initial);
  const double loss = test::mean_loss(model, initial, four_sequences(), &gradient);
  for (const std::size_t micro_batch : {1, 2, 4}) {
    Options options;
    options.max_norm = 0.01;  // does not show in the norm
    Trainer trainer(model, options, initial);
    const StepResult result = trainer.step(four_sequences(), micro_batch);
    EXPECT_NEAR(result.loss, loss, 1e-13);
    EXPECT_NEAR(result.grad_norm, norm_of(gradient), 1e-12);
  }
}

// One step of every parameter against the optimizers called by hand: routing, blocks, clipping, groups, schedule.
TEST(OracleTrainer, one_step_is_the_optimizers_on_the_clipped_gradient) {
  for (const Model& model : {test::small_gpt2(), test::small_llama()}) {
    for (const bool muon_for_matrices : {true, false}) {
      const Parameters initial = test::formula_parameters(model);
      Options options;
      options.muon_for_matrices = muon_for_matrices;
      options.muon.weight_decay = 0.1;
      options.adamw.weight_decay = 0.2;
      options.adamw.epsilon = 0.01;  // so that the scale of the gradient shows
      options.max_norm = 0.5;
      options.schedule = {ScheduleKind::constant, 10, 4, 0.1, 0.2};
      options.frozen = {"block.1.mlp.down", "final_norm.weight"};
      options.groups["block.0.mlp.down"] = {3.0, 0.0};
      Trainer trainer(model, options, initial);
      trainer.step(four_sequences(), 2);

      Parameters gradient = zeros_like(initial);
      test::mean_loss(model, initial, four_sequences(), &gradient);
      const double scale = 0.5 / norm_of(gradient, options.frozen);
      ASSERT_LT(scale, 1.0);
      for (const ParameterInfo& info : parameter_list(model)) {
        Tensor expected = initial.at(info.name);
        std::vector<double> clipped = gradient.at(info.name).values;
        for (double& value : clipped)
          value *= scale;
        const Group group = info.name == "block.0.mlp.down" ? Group{3.0, 0.0} : Group{};
        const std::size_t kv = model.kv_width();
        std::vector<std::size_t> blocks{info.shape[0]};
        if (info.name.find("attention.qkv") != std::string::npos) blocks = {model.hidden, kv, kv};
        if (info.name.find("gate_up") != std::string::npos) blocks = {model.ffn, model.ffn};
        const bool in_block = info.name.rfind("block.", 0) == 0;
        if (options.frozen.count(info.name) != 0) {
          EXPECT_EQ(trainer.parameters().at(info.name).values, expected.values) << info.name;
          continue;
        }
        if (muon_for_matrices && in_block && info.shape.size() == 2) {
          MuonState state;
          muon_step(options.muon, group, 0.25, blocks, clipped, state, expected);
        } else {
          AdamWState state;
          adamw_step(options.adamw, group, 0.25, 1, clipped, state, expected);
        }
        for (std::size_t i = 0; i < expected.values.size(); ++i) {
          ASSERT_NEAR(trainer.parameters().at(info.name).values[i], expected.values[i], 1e-10)
              << info.name << " element " << i;
        }
      }
    }
  }
}

TEST(OracleTrainer, learns_a_batch_by_heart) {
  for (const Model& model : {test::small_gpt2(), test::small_llama()}) {
    for (const bool muon_for_matrices : {true, false}) {
      Options options;
      options.muon_for_matrices = muon_for_matrices;
      options.adamw.learning_rate = 0.01;
      Trainer trainer(model, options, test::formula_parameters(model));
      const double first = trainer.step(test::two_sequences(), 1).loss;
      double last = first;
      for (int step = 0; step < 200; ++step)
        last = trainer.step(test::two_sequences(), 1).loss;
      EXPECT_GT(first, 2.0);
      EXPECT_LT(last, 0.1);
    }
  }
}

TEST(OracleTrainer, refuses_what_does_not_fit) {
  const Model model = test::small_gpt2();
  Parameters wrong = test::formula_parameters(model);
  wrong.at("final_norm.bias").shape = {13};
  EXPECT_THROW(Trainer(model, {}, wrong), std::invalid_argument);
  wrong = test::formula_parameters(model);
  wrong.erase("final_norm.bias");
  EXPECT_THROW(Trainer(model, {}, wrong), std::invalid_argument);
  Trainer trainer(model, {}, test::formula_parameters(model));
  EXPECT_THROW(trainer.step(four_sequences(), 3), std::invalid_argument);
  EXPECT_THROW(trainer.step({}, 1), std::invalid_argument);
}

}  // namespace
}  // namespace oracle
