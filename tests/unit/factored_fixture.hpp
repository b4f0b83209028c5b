#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/optimizer.hpp>

#include "optim_fixture.hpp"
#include "support/reference_factored.hpp"

namespace matrixfsdp::test {

inline reference::Dense dense(const TensorView<float>& values, const MatrixPart& part) {
  reference::Dense result(part.rows, part.cols);
  for (std::int64_t i = 0; i < part.rows; ++i) {
    for (std::int64_t j = 0; j < part.cols; ++j)
      result(i, j) = static_cast<double>(part_view(values, part)(i, j));
  }
  return result;
}

/// State `name` of the first parameter.
inline TensorView<float> state_of(Optimizer& optimizer, const std::string& name) {
  for (const StateView& state : optimizer.state()) {
    if (state.name == name) return state.values;
  }
  throw ContractError("no state " + name);
}

/// What the settings of Shampoo's and SOAP's references have in common, as `options` have it.
template <class Settings, class Options>
Settings common_settings(const Options& options) {
  Settings settings;
  settings.learning_rate = options.learning_rate;
  settings.weight_decay = options.weight_decay;
  settings.beta1 = options.beta1;
  settings.beta2 = options.beta2;
  settings.epsilon = options.epsilon;
  settings.bias_correction = options.bias_correction;
  settings.frequency = static_cast<int>(options.preconditioner.frequency);
  return settings;
}

/// Steps a matrix, whose group changes learning rate and weight decay, with a scaled gradient and schedule; `Reference`
/// with `settings`, those of `options`, is told the products.
template <class Factored, class Reference, class Options, class Settings>
void expect_scaled_as_asked(const Options& options, Settings settings, double tolerance) {
  Parameters parameters;
  ParameterGroup group;
  group.learning_rate_scale = 0.5;
  group.weight_decay = 0.125;
  const ParameterView view = parameters.add(parameter("w", {7, 7}), ParameterKind::matrix, group);
  settings.learning_rate *= 0.5 * 0.75;
  settings.weight_decay = 0.125;
  const MatrixPart whole{0, 7, 7, 7, ""};
  Reference expected(settings, dense(view.weight, whole));
  Factored optimizer(parameters.views(), options);
  for (int step = 1; step <= 5; ++step) {
    parameters.draw_gradients(static_cast<std::uint64_t>(step));
    optimizer.step({0.25, 0.75, step});
    const reference::Dense g = dense(view.gradient, whole);
    expected.step(reference::combine(0.25, g, 0.0, g));
  }
  EXPECT_LE(reference::relative_distance(dense(view.weight, whole), expected.weight), tolerance);
}

}  // namespace matrixfsdp::test
