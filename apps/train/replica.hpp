#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/nn/transformer.hpp>
#include <matrixfsdp/optim/optimizer.hpp>

#include "apps/train/options.hpp"

namespace matrixfsdp::train {

/// Tokens of one pass of one rank, micro-batch x sequence length, and for each the token that follows it.
struct MicroBatch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

/// A model as the strategy of `options` places it, with its activations and optimizer: what training acts on. `plan` is
/// that strategy's.
struct Replica {
  Replica(Communicator& communicator, const Options& options, Plan plan);

  Strategy strategy;
  ShardedModel& model;  ///< of the strategy
  nn::Transformer<float> network;
  Optimizer* optimizer;  ///< of the strategy

  /// Bytes this rank holds: model, optimizer state and scratch, activations.
  [[nodiscard]] std::int64_t resident_bytes() const;
};

struct PassTimes {
  double forward = 0;  ///< seconds
  double backward = 0;
};

/// One pass: forward, loss, backward, and the reduction of every unit. Returns the sum over this rank's tokens of
/// -log p(target); gradients are those of gradient_scale times that sum.
double run_pass(Replica& replica, const MicroBatch& batch, float gradient_scale, PassTimes& times);

/// Forward and loss only.
double run_evaluation_pass(Replica& replica, const MicroBatch& batch);

/// Unshards the root, then every block in turn, up to the activations of the last block; `after` runs while the root is
/// still unsharded (loss, or logits).
void run_forward(ShardedModel& model, nn::Transformer<float>& network, const std::vector<std::int32_t>& tokens,
                 const std::function<void(const UnitTensors<float>& root)>& after);

}  // namespace matrixfsdp::train
