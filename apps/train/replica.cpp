#include "apps/train/replica.hpp"

#include <chrono>
#include <utility>

#include <Kokkos_Core.hpp>

namespace matrixfsdp::train {
namespace {

constexpr std::size_t root = 0;  // of transformer_model
std::size_t unit_of(std::int64_t layer) {
  return static_cast<std::size_t>(layer) + 1;
}

nn::TransformerOptions network_options(const Options& options) {
  nn::TransformerOptions result;
  result.micro_batch = options.micro_batch;
  result.sequence_length = options.sequence_length();
  result.recompute = options.recompute;
  result.compute = options.compute_dtype;
  return result;
}

StrategyOptions strategy_options(const Options& options, int world_size) {
  StrategyOptions result;
  result.sharding = options.sharding;
  result.sharding.passes = options.passes(world_size);
  result.optimizer = options.optimizer;
  return result;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  Kokkos::fence();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Replica::Replica(Communicator& communicator, const Options& options, Plan plan)
    : strategy(options.strategy, communicator, transformer_model(options.shape), std::move(plan),
               strategy_options(options, communicator.size())),
      model(strategy.model()),
      network(options.shape, network_options(options)),
      optimizer(&strategy.optimizer()) {
  network.set_poll([this] { model.poll(); });
}

std::int64_t Replica::resident_bytes() const {
  return model.memory().total() + optimizer->state_bytes() + optimizer->workspace_bytes() + network.activation_bytes();
}

void run_forward(ShardedModel& model, nn::Transformer<float>& network, const std::vector<std::int32_t>& tokens,
                 const std::function<void(const UnitTensors<float>& root)>& after) {
  const auto layers = static_cast<std::int64_t>(model.unit_count()) - 1;
  model.unshard(root, Phase::forward);
  network.embed(model.weights(root), tokens);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    model.unshard(unit_of(layer), Phase::forward);
    network.block_forward(layer, model.weights(unit_of(layer)));
    model.reshard(unit_of(layer));
  }
  after(model.weights(root));
  model.reshard(root);
}

double run_pass(Replica& replica, const MicroBatch& batch, float gradient_scale, PassTimes& times) {
  ShardedModel& model = replica.model;
  nn::Transformer<float>& network = replica.network;
  model.begin_pass();
  auto start = std::chrono::steady_clock::now();
  double loss = 0;
  run_forward(model, network, batch.tokens, [&](const UnitTensors<float>& root_weights) {
    loss = network.loss_forward_backward(root_weights, model.gradients(root), batch.targets, gradient_scale);
  });
  times.forward += seconds_since(start);

  start = std::chrono::steady_clock::now();
  for (auto layer = static_cast<std::int64_t>(model.unit_count()) - 2; layer >= 0; --layer) {
    model.unshard(unit_of(layer), Phase::backward);
    network.block_backward(layer, model.weights(unit_of(layer)), model.gradients(unit_of(layer)));
    model.reshard(unit_of(layer));
    model.reduce(unit_of(layer));
  }
  network.embed_backward(model.gradients(root), batch.tokens);
  model.reduce(root);
  times.backward += seconds_since(start);
  return loss;
}

double run_evaluation_pass(Replica& replica, const MicroBatch& batch) {
  double loss = 0;
  run_forward(replica.model, replica.network, batch.tokens, [&](const UnitTensors<float>& root_weights) {
    loss = replica.network.loss(root_weights, batch.targets);
  });
  return loss;
}

}  // namespace matrixfsdp::train
