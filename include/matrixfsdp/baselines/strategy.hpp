#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/health.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/strategy.hpp>

namespace matrixfsdp {

/// What a Strategy is made with.
struct StrategyOptions {
  ShardedModelOptions sharding;  ///< resident_weights is the strategy's to say
  /// Which optimizer steps matrices, and how.
  RoutingOptions optimizer;
  /// Of fsdp2-gather: matrices whose rows are on their way while one is orthogonalized. As many as the model has is the
  /// published form, in memory too.
  std::int64_t matrices_ahead = default_matrices_ahead;
};

/// A model as one of the peers places it, with its optimizer: MatrixFSDP, or what it is measured against, over the same
/// runtime. What a step sends and holds is predicted by strategy_loads (plan/strategy.hpp). A step of training is that
/// of ShardedModel, with `step` in the place of the optimizer's.
///
/// The bits of a run are those of matrix-fsdp, for every W, with one exception. fsdp2 with Muon and W > 1 multiplies
/// blocks of rows, and so rounds elsewhere; the others orthogonalize the same whole matrices. (Where the square of a
/// gradient is not finite in float32, AdamW leaves out its rank's part of a norm block, which row shards may cut.)
///
/// Sources: FSDP2 (torch.distributed.fsdp.fully_shard) shards dimension 0 of every parameter, gathers a unit's shards
/// and copies them out, and copies gradients in. torch.optim.Muon on such sharded tensors leaves its products to
/// DTensor, which redistributes the operands in every Newton-Schulz step: X X^T of rows gathers X; of columns (a tall
/// matrix is transposed) it is a sum over ranks. fsdp2 gathers X once a step for all its products, and never the factor
/// X X^T. fsdp2-gather is full_tensor() and the same work on every rank, fsdp2-alltoall that of Dion (Ahn et al. 2025,
/// arXiv 2504.05295, and microsoft/dion's muon.py), matrices by W at a time, the next round arriving and the last one
/// returning while one is orthogonalized. zero1-owner: ZeRO-1 (Rajbhandari et al. 2020) by whole matrices.
class Strategy {
 public:
  /// Collective. `plan` is make_strategy_plan's. Throws InputError for a shard size other than 0 and W unless the
  /// strategy is matrix-fsdp, for row shards with the collective `padded` or a reshard to more than one rank, for
  /// zero1-owner with bfloat16 weights or such a reshard, for step_in_backward unless the strategy is matrix-fsdp, and
  /// for Shampoo or SOAP where it is not supported (see supports); ContractError for a plan of another strategy, and
  /// matrices_ahead < 0; otherwise as ShardedModel and make_optimizer do.
  Strategy(StrategyKind kind, Communicator& communicator, ModelSpec model, Plan plan, const StrategyOptions& options);
  ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  /// What it was made as.
  [[nodiscard]] StrategyKind kind() const;
  /// The model that forward and backward run on; lives as long as this.
  [[nodiscard]] ShardedModel& model();
  /// The same.
  [[nodiscard]] const ShardedModel& model() const;
  /// Steps what this rank holds; for checkpoints. Its step is collective where the strategy communicates.
  [[nodiscard]] Optimizer& optimizer();
  /// The same.
  [[nodiscard]] const Optimizer& optimizer() const;

  /// With sharding.step_in_backward, before the last pass's backward: what the units' steps in
  /// this backward are taken with. `before_first` runs just before the first of them, where given. Throws ContractError
  /// without step_in_backward, and for a gradient scale other than 1: the norm is not known yet.
  void step_in_backward(const StepInput& input, std::function<void()> before_first = {});

  /// Collective, after gradient_norm: the optimizer's step on the reduced gradients, with what is sent between its
  /// phases and after it, and weights_changed. New weights of zero1-owner may still be under way on return: forward
  /// waits for each unit's, ShardedModel::complete for all. With step_in_backward what all units' steps did; `input`
  /// must be that of step_in_backward (ContractError). Gradients that are not finite have been left out as an optimizer
  /// does (StepResult::failed), but there is no way back for the other units: a step that should have been skipped ends
  /// the run.
  StepResult step(const StepInput& input);

  /// Of the last step in backward, on this rank: seconds of its units' steps, and what made some of them fail, as it
  /// was then (afterwards their gradients are gone).
  [[nodiscard]] double unit_step_seconds() const;
  [[nodiscard]] const std::vector<NonFinite>& unit_failures() const;  ///< see above

  /// Matrices that all ranks together orthogonalize, or step with Shampoo or SOAP, in one step.
  [[nodiscard]] std::int64_t orthogonalizations() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Throws InputError as Strategy does, before there is a model. `shard_size` as ShardedModelOptions has it.
void check_strategy(StrategyKind kind, int world_size, const ModelSpec& model, const ShardedModelOptions& sharding);

}  // namespace matrixfsdp
