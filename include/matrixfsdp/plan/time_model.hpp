#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/machine.hpp>
#include <matrixfsdp/plan/strategy.hpp>
#include <matrixfsdp/plan/transformer.hpp>

/// @file
/// What a training step will take on a described machine, for every strategy. Bytes and memory are those of
/// strategy_loads; transfers take what collective_model.hpp says of the machine's links; products take FLOPs over the
/// rank's rate. What is left out is small for large models, or hidden: embeddings, norms and activations, the exchange
/// of norms, copies in and out of buffers, contention between a transfer and computation.
namespace matrixfsdp {

/// What one pass of one rank computes and keeps.
struct PassWork {
  std::vector<std::int64_t> unit_flops;  ///< forward of each unit; backward: twice that
  std::int64_t last_flops = 0;           ///< after the last unit, from the first one's weights: a language model's head
  std::int64_t activation_bytes = 0;     ///< kept from forward to backward
};

/// Of transformer_model(shape), `sequences` sequences of the shape's length, float32. Activations are those of the
/// library's layers that have a row for each token: with `recompute` one block keeps its own, else all do; with
/// products in bfloat16 also the rounded copies but for that of logits. Throws as forward_product_flops.
PassWork transformer_pass(const TransformerShape& shape, std::int64_t sequences, bool recompute,
                          DType compute = DType::float32);

/// One unit in one pass; seconds.
struct UnitSeconds {
  /// Of the transfer of its weights, once.
  double unshard = 0;
  /// Of its computation.
  double forward = 0;
  /// Of its computation, recomputation too.
  double backward = 0;
  /// Of the transfer of its gradients.
  double reduce = 0;
  bool keep = false;  ///< backward unshards nothing
};

/// Forward through all units and `last` seconds after them. Transfers run one after the other, beside the computation:
/// unit u is under way when u - 1 is, or when the computation of u - 1 - prefetch has given its storage back, whichever
/// is later.
double forward_seconds(const std::vector<UnitSeconds>& units, double last, std::int64_t prefetch);

/// `last` seconds, then the units from the last to the first. The reduce of a unit follows its computation, before the
/// next unit's unshard that could follow it too; the step goes on when the last reduce is complete.
double backward_seconds(const std::vector<UnitSeconds>& units, double last, std::int64_t prefetch);

/// What a step is predicted for, besides model, plan and machine.
struct StepOptions {
  /// Of one rank.
  PassWork pass;
  bool recompute = false;      ///< backward: forward again, and twice that
  StrategyCostOptions cost;    ///< of `memory` also passes, prefetch, optimizer, and what travels
  bool master_weights = true;  ///< false: all that is kept and sent is bfloat16, half of float32's bytes
  std::optional<CollectiveProfile>
      links;  ///< as a calibration found them, with its corrections; none: as the machine says
  std::optional<CollectiveAlgorithm> unshard_collective;    ///< of forward and backward; none: the fastest
  std::optional<CollectiveAlgorithm> optimizer_collective;  ///< of what an optimizer gathers; none: the fastest
  /// What a collective takes longer between two computations than after another one, as measured where ranks share
  /// cores: they arrive one after the other. Of fsdp2's optimizer, whose Newton-Schulz steps alternate the two.
  double arrival_seconds = 0;
};

/// What a step takes by one strategy.
struct StrategyPrediction {
  /// Whose step it is.
  StrategyKind strategy = StrategyKind::matrix_fsdp;
  /// Of all passes, of the slowest rank.
  double forward_seconds = 0;
  /// Of all passes, of the slowest rank, until the last reduce is complete.
  double backward_seconds = 0;
  /// From the last reduce to the next forward.
  double optimizer_seconds = 0;
  std::int64_t bytes_per_rank = 0;            ///< sent in a step: the most of any rank
  std::int64_t optimizer_bytes_per_rank = 0;  ///< of them, after backward: the most of any rank
  std::int64_t memory_bytes = 0;              ///< the most of any rank, activations included
  bool fits = true;                           ///< into the machine's memory

  /// Of the whole step.
  [[nodiscard]] double total_seconds() const { return forward_seconds + backward_seconds + optimizer_seconds; }
};

/// `plan` is one of make_strategy_plan(kind, model, machine.ranks()). The slowest rank sets the pace of all.
///   forward, backward   as above, passes times; the fastest reduce of the machine's links, and the unshard asked for
///   optimizer           the slowest rank's FLOPs over its rate, all its resident bytes read and written once, and
///     fsdp2             each Newton-Schulz step's gather of each matrix (rows > cols: sum of its small Gram matrix)
///     fsdp2-gather      gathers, one matrix ahead of the products
///     fsdp2-alltoall    the busiest rank's bytes there, and back
///     zero1-owner       the new weights of all units from their owners to all, together
/// Throws ContractError for a pass of another number of units, links of another number of ranks or nodes, InputError
/// for an invalid machine, and as strategy_loads does.
StrategyPrediction predict_step(StrategyKind kind, const ModelSpec& model, const Plan& plan, const Machine& machine,
                                const StepOptions& options);

}  // namespace matrixfsdp
