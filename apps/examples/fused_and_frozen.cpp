// One unit with a fused matrix and frozen parts. Query, key and value lie in one matrix, which is gathered and owned as
// one, but each block is orthogonalized by itself; what is frozen is unsharded like the rest, has no gradient and no
// optimizer state, and keeps its bits. Run: mpiexec -n 2 fused_and_frozen
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>

using namespace matrixfsdp;

namespace {

// README: begin
ModelSpec attention(std::int64_t width) {
  ParameterSpec fused{"attention.qkv", {3 * width, width}};
  fused.blocks = {0, {"query", "key", "value"}, {width, width, width}};
  ParameterSpec backbone{"attention.backbone", {width, width}};
  backbone.frozen = true;
  ParameterSpec scale{"attention.scale", {width}};
  scale.frozen = true;
  scale.initialization.kind = Initialization::Kind::ones;
  ModelSpec spec;
  spec.units = {{"attention", {fused, backbone, scale, {"attention.out", {width, width}}}}};
  return spec;
}
// README: end

constexpr std::int64_t width = 24;
constexpr double learning_rate = 0.01;

std::vector<std::vector<float>> copy_of(const UnitTensors<float>& tensors) {
  std::vector<std::vector<float>> copies;
  for (const TensorView<float>& tensor : tensors)
    copies.emplace_back(tensor.data(), tensor.data() + tensor.size());
  return copies;
}

/// How far the update of the block of `width` rows from `first` is from lr times orthogonal rows.
double deviation(const std::vector<float>& before, const TensorView<float>& after, std::int64_t first) {
  const auto update = [&](std::int64_t row, std::int64_t col) {
    const auto i = static_cast<std::size_t>((first + row) * width + col);
    return (static_cast<double>(after(i)) - static_cast<double>(before[i])) / learning_rate;
  };
  double largest = 0;
  for (std::int64_t row = 0; row < width; ++row) {
    for (std::int64_t other = 0; other < width; ++other) {
      double product = row == other ? -1.0 : 0.0;
      for (std::int64_t col = 0; col < width; ++col)
        product += update(row, col) * update(other, col);
      largest = std::max(largest, std::abs(product));
    }
  }
  return largest;
}

int train(Communicator& world) {
  const ModelSpec spec = attention(width);
  ShardedModel model(world, spec, make_plan(spec, world.size()), {});
  RoutingOptions options;
  options.muon.learning_rate = learning_rate;
  const auto optimizer = make_optimizer(model.trainable(), options);

  model.begin_step();
  model.begin_pass();
  model.unshard(0, Phase::forward);
  const auto before = copy_of(model.weights(0));
  for (std::size_t p = 0; p < spec.units[0].parameters.size(); ++p) {
    const TensorView<float>& gradient = model.gradients(0)[p];
    for (std::size_t i = 0; i < gradient.size(); ++i)  // a frozen parameter's has no elements
      gradient(i) += model.weights(0)[p](i);
  }
  model.reshard(0);
  model.reduce(0);
  (void)gradient_norm(model);
  const StepResult result = optimizer->step({});
  model.weights_changed();

  model.unshard(0, Phase::forward);
  const UnitTensors<float>& after = model.weights(0);
  double blocks = 0;
  for (std::int64_t block = 0; block < 3; ++block)
    blocks = std::max(blocks, deviation(before[0], after[0], block * width));
  const bool frozen = std::equal(before[1].begin(), before[1].end(), after[1].data()) &&
                      std::equal(before[2].begin(), before[2].end(), after[2].data());
  model.reshard(0);

  std::int64_t matrices = 0;
  for (const std::int64_t count :
       all_gather_value(world, Purpose::other, result.matrices_orthogonalized, {"matrices", "", "end"}))
    matrices += count;
  if (world.rank() == 0) {
    std::printf("%d matrices orthogonalized; blocks are orthogonal up to %.3f; frozen weights %s\n",
                static_cast<int>(matrices), blocks, frozen ? "unchanged" : "CHANGED");
  }
  return matrices == 4 && blocks < 0.3 && frozen ? exit_ok : exit_different;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main([&] {
    Session session = Session::start(argc, argv);
    return train(session.world());
  });
}
