#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/optim/routing.hpp>

#include "optim_fixture.hpp"

// CASES 25: clipping scales the raw gradient before it enters any state, never the update.
namespace matrixfsdp {
namespace {

using test::bits_of;
using test::parameter;
using test::Parameters;

void add_parameters(Parameters& parameters) {
  parameters.add(parameter("wide", {6, 20}), ParameterKind::matrix);
  parameters.add(parameter("square", {9, 9}), ParameterKind::matrix);
  parameters.add(parameter("bias", {33}), ParameterKind::tail);
}

std::string everything(const Parameters& parameters, Optimizer& optimizer) {
  std::string bits;
  for (const ParameterView& view : parameters.views())
    bits += bits_of(view.weight);
  for (const StateView& state : optimizer.state())
    bits += bits_of(state.values);
  return bits;
}

// Three steps clipped by different powers of two are, bit for bit, three steps on gradients that were scaled
// beforehand.
TEST(Clipping, equals_steps_on_scaled_gradients) {
  Parameters clipped;
  Parameters scaled;
  add_parameters(clipped);
  add_parameters(scaled);
  RoutingOptions options;
  options.muon.weight_decay = 0.1;
  const auto one = make_optimizer(clipped.views(), options);
  const auto other = make_optimizer(scaled.views(), options);
  const std::vector<double> scales{0.125, 1.0, 0.5};
  for (std::size_t s = 0; s < scales.size(); ++s) {
    const auto step = static_cast<std::int64_t>(s + 1);
    clipped.draw_gradients(10 + s);
    scaled.draw_gradients(10 + s, scales[s]);
    one->step({scales[s], 1.0, step});
    other->step({1.0, 1.0, step});
    ASSERT_EQ(everything(clipped, *one), everything(scaled, *other)) << "step " << step;
  }
}

double moved(const ParameterView& view, const std::vector<float>& before) {
  double square = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    square += std::pow(static_cast<double>(view.weight(i)) - static_cast<double>(before[i]), 2);
  return std::sqrt(square);
}

// In the first step the direction has no scale, so a clipped step is as long as any other: the update is not clipped.
TEST(Clipping, does_not_shorten_the_update) {
  std::vector<double> lengths;
  for (const double scale : {1.0, 0x1.0p-20}) {
    Parameters parameters;
    const ParameterView view = parameters.add(parameter("w", {6, 20}), ParameterKind::matrix);
    const std::vector<float> before = test::values_of(view.weight);
    make_optimizer(parameters.views(), {})->step({scale, 1.0, 1});
    lengths.push_back(moved(view, before));
  }
  EXPECT_EQ(lengths[0], lengths[1]);
  EXPECT_GT(lengths[0], 0.01);
}

// A clipped outlier does not outweigh later gradients in the momentum: 0.05 * clip * g, then decay.
TEST(Clipping, reaches_the_momentum) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {3, 3}), ParameterKind::matrix);
  test::fill(view.gradient, 1024.0F);
  Muon muon(parameters.views(), {});
  muon.step({1.0 / 1024, 1.0, 1});
  const TensorView<float> momentum = muon.state().at(0).values;
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_FLOAT_EQ(momentum(i), 0.05F);
  test::fill(view.gradient, 1.0F);
  muon.step({1.0, 1.0, 2});
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_FLOAT_EQ(momentum(i), 0.0975F);
}

}  // namespace
}  // namespace matrixfsdp
