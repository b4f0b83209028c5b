// A small scientific regression: a network learns the damped oscillation u(t; c, w) = exp(-c t) cos(w t), with forward
// and backward written by hand, layer by layer: each is a unit, unsharded only while it computes. The global batch is
// the same four micro-batches at W = 1, 2 and 4, and so are all bits. Run: mpiexec -n 2 regression
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/optim/schedule.hpp>
#include <matrixfsdp/plan/planner.hpp>

using namespace matrixfsdp;

namespace {

constexpr std::array<std::int64_t, 5> widths{3, 48, 48, 48, 1};
constexpr std::size_t layers = widths.size() - 1;
constexpr std::int64_t micro_batches = 4, samples = 32, steps = 400;

ModelSpec network() {
  ModelSpec spec;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    ParameterSpec weight{name + ".weight", {widths[layer + 1], widths[layer]}};
    ParameterSpec bias{name + ".bias", {widths[layer + 1]}};
    weight.initialization.standard_deviation = 1 / std::sqrt(static_cast<double>(widths[layer]));
    if (layer == 0) weight.kind = ParameterKind::tail;  // on AdamW, as the last layer's single row is by rule
    spec.units.push_back({name, {weight, bias}});
  }
  return spec;
}

struct Sample {
  std::array<double, 3> input;  // t, c and w, scaled to [0, 1]
  double value;
};

/// Fills the cube evenly: multiples of powers of 1 / 1.2207..., the solution of x^4 = x + 1.
Sample sample_at(std::int64_t index) {
  constexpr std::array<double, 3> step{0.8191725133961645, 0.6710436067037893, 0.5497004779019703};
  Sample sample{};
  for (std::size_t k = 0; k < 3; ++k)
    sample.input[k] = std::fmod(0.5 + static_cast<double>(index) * step[k], 1.0);
  const double time = sample.input[0], damping = 2 * sample.input[1], frequency = 2 + 4 * sample.input[2];
  sample.value = std::exp(-damping * time) * std::cos(frequency * time);
  return sample;
}

using Activations = std::array<std::vector<float>, layers + 1>;  // [0] is the input; samples x width

/// a <- tanh(W a + b), linear in the last layer.
void forward(const UnitTensors<float>& weights, std::size_t layer, Activations& a) {
  const std::int64_t in = widths[layer], out = widths[layer + 1];
  for (std::int64_t s = 0; s < samples; ++s) {
    for (std::int64_t o = 0; o < out; ++o) {
      float sum = weights[1](o);
      for (std::int64_t i = 0; i < in; ++i)
        sum += weights[0](o * in + i) * a[layer][s * in + i];
      a[layer + 1][s * out + o] = layer + 1 == layers ? sum : std::tanh(sum);
    }
  }
}

/// `delta` is d loss / d (W a + b), samples x out; returns the same of the layer below.
std::vector<float> backward(const UnitTensors<float>& weights, UnitTensors<float>& gradients, std::size_t layer,
                            const Activations& a, const std::vector<float>& delta) {
  const std::int64_t in = widths[layer], out = widths[layer + 1];
  std::vector<float> below(samples * in);
  for (std::int64_t s = 0; s < samples; ++s) {
    for (std::int64_t o = 0; o < out; ++o) {
      gradients[1](o) += delta[s * out + o];
      for (std::int64_t i = 0; i < in; ++i) {
        gradients[0](o * in + i) += delta[s * out + o] * a[layer][s * in + i];
        below[s * in + i] += weights[0](o * in + i) * delta[s * out + o];
      }
    }
    for (std::int64_t i = 0; i < in; ++i)
      below[s * in + i] *= 1 - a[layer][s * in + i] * a[layer][s * in + i];  // tanh' = 1 - tanh^2
  }
  return below;
}

/// One micro-batch through all units and back; returns its part of the mean squared error.
double pass(ShardedModel& model, std::int64_t first_sample, Activations& a) {
  std::vector<float> delta(samples);
  for (std::int64_t s = 0; s < samples; ++s) {
    const Sample sample = sample_at(first_sample + s);
    for (std::int64_t k = 0; k < 3; ++k)
      a[0][s * 3 + k] = static_cast<float>(2 * sample.input[k] - 1);
    delta[s] = static_cast<float>(sample.value);
  }
  // README: begin
  model.begin_pass();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    model.unshard(layer, Phase::forward);  // and the next layer is already on its way
    forward(model.weights(layer), layer, a);
    model.reshard(layer);
  }
  double loss = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    const float residual = a[layers][s] - delta[s];
    loss += static_cast<double>(residual) * residual / (samples * micro_batches);
    delta[s] = 2 * residual / (samples * micro_batches);
  }
  for (std::size_t layer = layers; layer-- > 0;) {
    model.unshard(layer, Phase::backward);
    delta = backward(model.weights(layer), model.gradients(layer), layer, a, delta);
    model.reduce(layer);  // on its way to the owner, while the layer below computes
    model.reshard(layer);
  }
  // README: end
  return loss;
}

int train(Communicator& world) {
  if (micro_batches % world.size() != 0) {
    if (world.rank() == 0) std::fprintf(stderr, "expected 1, 2 or 4 ranks\n");
    return exit_error;
  }
  ShardedModelOptions options;
  options.passes = micro_batches / world.size();
  const ModelSpec spec = network();
  ShardedModel model(world, spec, make_plan(spec, world.size()), options);
  RoutingOptions routing;
  routing.adamw.learning_rate = 3e-3;
  const auto optimizer = make_optimizer(model.trainable(), routing);
  const Schedule schedule{ScheduleKind::cosine, steps, 20, 0.0};

  Activations activations;
  for (std::size_t layer = 0; layer <= layers; ++layer)
    activations[layer].resize(samples * widths[layer]);
  double error = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    model.begin_step();
    std::vector<double> losses;
    for (std::int64_t index = world.rank(); index < micro_batches; index += world.size())
      losses.push_back(pass(model, ((step - 1) * micro_batches + index) * samples, activations));
    error = std::sqrt(fold_losses(world, losses));
    const GradientNorm norm = gradient_norm(model);
    if (norm.finite) optimizer->step({clip_scale(norm.norm, 1.0), schedule.factor(step), step});
    model.weights_changed();
    if (world.rank() == 0 && (step == 1 || step % 100 == 0))
      std::printf("step %3d: error %.9f, gradient norm %.9f\n", static_cast<int>(step), error, norm.norm);
  }
  return error < 0.02 ? exit_ok : exit_different;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main([&] {
    Session session = Session::start(argc, argv);
    return train(session.world());
  });
}
