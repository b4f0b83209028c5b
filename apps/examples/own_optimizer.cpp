// An optimizer of one's own in Muon's place: descent that divides each matrix's momentum by its largest singular value.
// That needs the whole matrix, and the owner has it: the step sends nothing. Tails stay on AdamW, and checkpoints keep
// the state. Run: mpiexec -n 2 own_optimizer
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>

using namespace matrixfsdp;

namespace {

/// m <- b m + (1 - b) g;  w <- w - lr m / sigma, sigma = the largest singular value of m by power iteration.
class SpectralDescent final : public Optimizer {
 public:
  explicit SpectralDescent(std::vector<ParameterView> matrices) : views_(std::move(matrices)) {
    for (const ParameterView& view : views_)
      momentum_.push_back(make_zeros<float>("momentum", view.elements.size()));
  }

  StepResult step(const StepInput& input) override {
    StepResult result;
    for (std::size_t v = 0; v < views_.size(); ++v) {
      const ParameterView& view = views_[v];
      for (std::int64_t i = 0; i < view.elements.size(); ++i) {
        const auto gradient = static_cast<float>(input.gradient_scale * view.gradient(i));
        momentum_[v](i) = 0.9F * momentum_[v](i) + 0.1F * gradient;
      }
      const double norm = largest_singular_value(view.spec->shape, momentum_[v]);
      if (norm == 0) continue;
      const auto factor = static_cast<float>(input.schedule * learning_rate * view.group.learning_rate_scale / norm);
      for (std::int64_t i = 0; i < view.elements.size(); ++i)
        view.weight(i) -= factor * momentum_[v](i);
    }
    return result;
  }

  [[nodiscard]] const std::vector<ParameterView>& views() const override { return views_; }
  std::vector<StateView> state() override {
    std::vector<StateView> all;
    for (std::size_t v = 0; v < views_.size(); ++v)
      all.push_back({v, "momentum", momentum_[v], "spectral-descent"});
    return all;
  }
  [[nodiscard]] std::int64_t state_bytes() const override {
    std::int64_t bytes = 0;
    for (const ParameterView& view : views_)
      bytes += view.elements.size() * static_cast<std::int64_t>(sizeof(float));
    return bytes;
  }
  [[nodiscard]] std::int64_t workspace_bytes() const override { return 0; }

 private:
  static constexpr double learning_rate = 0.05;
  static double largest_singular_value(const Shape& shape, const Tensor<float>& matrix);

  std::vector<ParameterView> views_;
  std::vector<Tensor<float>> momentum_;
};

// README: begin
std::unique_ptr<Optimizer> optimizer_of(const ShardedModel& model) {
  RoutingOptions tails;
  tails.adamw.learning_rate = 0.02;
  return make_optimizer(model.trainable(), tails, [](std::vector<ParameterView> matrices, const RoutingOptions&) {
    return std::make_unique<SpectralDescent>(std::move(matrices));
  });
}
// README: end

double SpectralDescent::largest_singular_value(const Shape& shape, const Tensor<float>& matrix) {
  const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
  std::vector<double> right(cols, 1 / std::sqrt(static_cast<double>(cols)));
  double norm = 0;
  for (int iteration = 0; iteration < 20; ++iteration) {
    std::vector<double> next(cols, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
      double product = 0;
      for (std::size_t c = 0; c < cols; ++c)
        product += matrix(r * cols + c) * right[c];
      for (std::size_t c = 0; c < cols; ++c)
        next[c] += matrix(r * cols + c) * product;
    }
    double square = 0;
    for (const double value : next)
      square += value * value;
    norm = std::pow(square, 0.25);  // |M^T M v| is the square of the largest singular value
    if (norm == 0) return 0;
    for (std::size_t c = 0; c < cols; ++c)
      right[c] = next[c] / (norm * norm);
  }
  return norm;
}

/// Where every weight shall go.
float target(std::size_t parameter, std::size_t element) {
  return static_cast<float>(std::sin(static_cast<double>(1 + parameter) * static_cast<double>(1 + element)));
}

/// |w - target|^2 / 2, this rank's part of its gradient, and the largest |w - target|.
float fill_gradients(const UnitTensors<float>& weights, UnitTensors<float>& gradients, int ranks) {
  float largest = 0;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    for (std::size_t i = 0; i < weights[p].size(); ++i) {
      const float difference = weights[p](i) - target(p, i);
      gradients[p](i) += difference / static_cast<float>(ranks);
      largest = std::max(largest, std::abs(difference));
    }
  }
  return largest;
}

int train(Communicator& world) {
  constexpr std::int64_t steps = 300;
  ModelSpec spec;
  spec.units = {{"linear", {{"up", {24, 8}}, {"down", {8, 24}}, {"bias", {24}}}}};
  ShardedModel model(world, spec, make_plan(spec, world.size()), {});
  const auto optimizer = optimizer_of(model);

  float distance = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    model.begin_step();
    model.begin_pass();
    model.unshard(0, Phase::forward);
    distance = fill_gradients(model.weights(0), model.gradients(0), world.size());
    model.reshard(0);
    model.reduce(0);
    const GradientNorm norm = gradient_norm(model);
    const double schedule = 1 - static_cast<double>(step - 1) / static_cast<double>(steps);
    if (norm.finite) optimizer->step({1.0, schedule, step});
    model.weights_changed();
    if (world.rank() == 0 && (step == 1 || step % 100 == 0))
      std::printf("step %3d: largest distance %.9f\n", static_cast<int>(step), static_cast<double>(distance));
  }
  return distance < 0.1F && world.bytes()[Purpose::optimizer] == 0 ? exit_ok : exit_different;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main([&] {
    Session session = Session::start(argc, argv);
    return train(session.world());
  });
}
