#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/parameter/parameter_view.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/plan/plan.hpp>
#include <matrixfsdp/plan/topology.hpp>
#include <matrixfsdp/plan/unit_policy.hpp>

namespace matrixfsdp {

/// How the passes of one step accumulate.
enum class Accumulation {
  chunks,     ///< every pass exchanges; the bits of a run depend on the global batch, not on W (default)
  unsharded,  ///< sum the passes locally in a full gradient, exchange once per step: fewer bytes, more memory, other
              ///< bits
};

/// Unit life cycle: sharded -> unsharding -> unsharded -> (reshard) sharded.
enum class UnitState {
  sharded,     ///< this rank has its shard alone, or a copy that it may lose
  unsharding,  ///< the others' shards are on their way
  unsharded,   ///< whole, and addresses are valid
};

/// In which part of a step a unit is used; for labels, counts and prefetch order.
enum class Phase {
  forward,   ///< units in order; prefetch goes on to the next one
  backward,  ///< units in reverse; prefetch goes back to the one before
};

/// How a ShardedModel runs; the same on every rank.
struct ShardedModelOptions {
  std::int64_t prefetch = 1;  ///< units unsharded ahead of the one that computes; 0: none
  std::int64_t reduces_in_flight =
      1;                        ///< reduces under way while the rank computes on, each with a gradient buffer; 0: none
  bool progress_thread = true;  ///< a thread moves what is under way, where ProgressThread::available; else poll() does
  /// How passes accumulate.
  Accumulation accumulation = Accumulation::chunks;
  /// Ranks of a shard group (hybrid sharding): each group of neighbouring ranks holds the whole model, its plan is for
  /// so many ranks, and unshard stays inside it. 0: all ranks are one group. Every rank's micro-batch counts, so the
  /// bits of a run do not depend on it.
  int shard_size = 0;
  std::int64_t passes = 1;  ///< per step; fixed, so that running sums are allocated once
  /// Micro-batches with neighbouring indices (pass * W + rank) whose gradients are summed first, and then these sums.
  /// Divides passes * W. 1: one sum from left to right. The bits of a run depend on it, but not on W.
  std::int64_t sum_group = 1;
  CollectiveAlgorithm collective = CollectiveAlgorithm::scatter;         ///< of unshard; the bits do not depend on it
  CollectiveAlgorithm reduce_collective = CollectiveAlgorithm::scatter;  ///< of reduce; nor on this
  std::vector<UnitAlgorithms> unit_collectives;  ///< one for each unit instead of these two; empty: none
  std::uint64_t seed = 1;                        ///< of the initial weights
  UnitPolicies policies;                         ///< of what travels
  /// Weights of all units stay whole on every rank, in one storage with the shards, and weights_changed sends the
  /// owners' new ones to all (Purpose::optimizer; it returns while they are under way). Gradients go to owners as ever.
  bool resident_weights = false;
  /// Each unit is stepped in backward, in the last pass, as soon as its gradient has landed (set_unit_step), beside
  /// what the rest of backward computes and sends. Where gradients are exchanged once a step (passes = 1, or
  /// Accumulation::unsharded) those of units in flight share reduces_in_flight + 1 storages, so that a view's gradient
  /// is valid during the unit's step only; between passes of chunks all of them hold sums, and stay. Only owners can do
  /// this without communication, and only without clipping, which needs the norm of all gradients first.
  bool step_in_backward = false;
};

/// Bytes this rank holds now, by use (float32 unless said otherwise).
struct MemoryUse {
  std::int64_t weights = 0;    ///< owned shards
  std::int64_t gradients = 0;  ///< owned gradients
  std::int64_t unsharded = 0;  ///< storage of unsharded units
  std::int64_t held = 0;       ///< parts of units from forward to backward (UnitPolicy::reshard_to)
  /// Full gradients of units, before they are reduced.
  std::int64_t gradient_buffers = 0;
  /// Sums of others' elements, from pass to pass.
  std::int64_t running_sums = 0;
  std::int64_t staging_peak = 0;  ///< of all reduces that may be under way, as gradients travel
  /// All of it.
  [[nodiscard]] std::int64_t total() const {
    return weights + gradients + unsharded + held + gradient_buffers + running_sums + staging_peak;
  }
};

/// Seconds since the model was made, of this rank's transfers: from issue to completion, and how much of that the rank
/// waited instead of computing. 1 - waited / under_way is the hidden share.
struct TransferTimes {
  /// From issue to completion, added up over unshards.
  double unshard_under_way = 0;
  /// Of these, waited for.
  double unshard_waited = 0;
  /// From issue to completion, added up over reduces.
  double reduce_under_way = 0;
  /// Of these, waited for.
  double reduce_waited = 0;
};

/// A model whose shards live as `plan` says. Every rank calls the same functions in the same order; in the first step
/// every unshard and reduce is announced to all ranks first, so that a different order is an error that names both,
/// never a swap or a hang. What waits for other ranks throws CommunicationError at the communicator's deadline, and
/// where MPI fails. Unit indices are those of spec().units; ContractError for one that the model does not have.
///
/// A step:
///   begin_step();
///   for each pass: begin_pass();
///                  forward:  for each unit: unshard(u, forward);  compute from weights(u);      reshard(u)
///                  backward: for each unit: unshard(u, backward); compute into gradients(u);    reduce(u); reshard(u)
///   gradient_norm(*this); optimizer step on trainable(); weights_changed()
///
/// With step_in_backward the optimizer's steps run inside backward, unit by unit, and finish_unit_steps() takes the
/// optimizer's place.
///
/// Transfers run while the rank computes: the next units' unshard (prefetch), and the last units' reduce
/// (reduces_in_flight). When the last reduce of a step returns, all are complete.
///
/// Storage: every unit has one address for the whole run. A kept unit has storage of its own; the others share
/// prefetch + 1 slots, the k-th of them always in slot k mod (prefetch + 1). A slot is recycled, never zeroed, when the
/// next unit moves in; a unit whose slot was not taken since its last use is not fetched again. With W = 1 or a
/// replicated plan the shards are the whole model, and unshard moves nothing; units with bfloat16 weights have storage
/// even then, because the shards, which the optimizer and checkpoints see, keep the float32 master weights.
///
/// Row shards (Plan::row_shards) do not lie in rank order within a parameter: what has arrived is copied out into the
/// storage, one for all units that are not kept, and gradients are copied in before they travel, as FSDP2 does; units
/// that are prefetched, and reduces under way, have the buffers that travel.
class ShardedModel {
 public:
  /// Collective. Throws ContractError unless the plan is for as many ranks as a shard group has, and these divide the
  /// communicator's (a replicated plan: are all of them), prefetch >= 0, passes >= 1, sum_group >= 1, and
  /// unit_collectives are none or one for each unit, of which none reduces by padded or allgatherv; InputError where
  /// sum_group does not divide passes * W, or is not 1 with Accumulation::unsharded, which sums passes first, and for
  /// an invalid model or a policy of a unit that it does not have, ContractError for a plan that does not fit it (see
  /// validate of both), or a dtype that cannot travel, for resident weights or row shards with reshard_to > 1, for
  /// resident weights as bfloat16, and for step_in_backward with a plan that is replicated or of row shards, or with
  /// resident weights. Compares hashes of model, plan and options across ranks (CommunicationError that
  /// names what differs), allocates, and fills the initial weights (see Initialization). `communicator` must outlive
  /// the model.
  ShardedModel(Communicator& communicator, ModelSpec model, Plan plan, const ShardedModelOptions& options);
  /// Waits for a prefetch that is under way; never throws, and waits for nothing while an exception unwinds.
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  /// What the constructor was given.
  [[nodiscard]] const ModelSpec& spec() const;
  /// What the constructor was given.
  [[nodiscard]] const Plan& plan() const;
  /// What the constructor was given.
  [[nodiscard]] Communicator& communicator() const;
  /// This rank's: the ranks of the plan. All of the communicator's unless shard_size says otherwise.
  [[nodiscard]] RankGroup shard_group() const;
  /// Units of spec().
  [[nodiscard]] std::size_t unit_count() const;

  /// Makes the unit's weights available and counts one use; starts prefetching the next units of `phase`. Throws
  /// ContractError when its storage is still in use by another unit (both names), and in the first step
  /// CommunicationError when another rank does something else (both operations).
  void unshard(std::size_t unit, Phase phase);
  /// Units to prefetch, in this order, when `unit` is unsharded in `phase`: instead of the next `prefetch` ones. A unit
  /// whose storage is in use then is left out. The same on all ranks. Throws ContractError for a unit that the model
  /// does not have.
  void set_prefetch(std::size_t unit, Phase phase, std::vector<std::size_t> next);
  /// Ends one use. At zero uses the storage may be recycled, unless the unit is kept. A unit whose backward needs no
  /// weights (an embedding's) is not unsharded in backward; set_prefetch leaves it out ahead of time. Throws
  /// ContractError where there is no use to end.
  void reshard(std::size_t unit);
  /// Where the unit is in its life cycle, on this rank.
  [[nodiscard]] UnitState state(std::size_t unit) const;
  /// Uses that unshard has begun and reshard has not ended.
  [[nodiscard]] int uses(std::size_t unit) const;

  /// Weights by index within the unit. Throws ContractError with the unit's name unless unsharded. Addresses are the
  /// same in forward and backward.
  [[nodiscard]] const UnitTensors<float>& weights(std::size_t unit) const;
  /// Gradient buffer, zeroed by its first use in a pass (of the step, with Accumulation::unsharded); frozen parameters
  /// are empty. Waits for the reduce that last used the buffer. Throws ContractError before begin_pass, and when the
  /// unit has been reduced in this pass. Units that are not kept share reduces_in_flight + 1 buffers, so each must be
  /// reduced before the next asks for one (ContractError, both names).
  UnitTensors<float>& gradients(std::size_t unit);

  /// Starts a step anew, whatever became of the one before.
  void begin_step();
  /// Throws ContractError before the first begin_step, when the step has had all its passes, or when a unit was not
  /// reduced in the pass before (its name).
  void begin_pass();
  /// Adds this rank's gradient buffer of the unit to the running sums, and takes it away; in the last pass brings the
  /// sums to the owners. Returns while that is under way; the step's last reduce waits for all.
  /// Collective: every unit once per pass, whether or not anything was written to its gradient (then it counts as
  /// zeros). Throws ContractError as gradients does, and in the first step CommunicationError as unshard does.
  void reduce(std::size_t unit);

  /// What this rank holds, in canonical order: trainable segments for the optimizer. Valid for the life of the model.
  [[nodiscard]] const std::vector<ParameterView>& trainable() const;
  /// The same for checkpoints: all segments, those of frozen parameters too, whose gradients are empty.
  [[nodiscard]] const std::vector<ParameterView>& resident() const;
  /// After the optimizer or a load has written to the views: unsharded copies are stale, and the next unshard fetches
  /// again. Throws ContractError while a unit is in use (its name). On all ranks.
  void weights_changed();
  /// Of step_in_backward: what steps one unit, from its gradient to its weights, on this rank. Called once a step for
  /// each unit, in the thread that calls the model, from unshard, reshard, reduce, complete or finish_unit_steps, when
  /// the gradient has landed and no use of the unit is open: in order of reduction, but for units that are in use then.
  /// It calls nothing of the model; what it throws ends the step. From a unit's last reduce to weights_changed or
  /// begin_step unshard refuses it, and prefetch leaves it out. Throws ContractError without step_in_backward.
  void set_unit_step(std::function<void(std::size_t unit)> step);
  /// Ends the steps of units that have waited for their last use; before weights_changed. Throws ContractError before
  /// the last reduce, and where a unit is still in use (its name).
  void finish_unit_steps();
  /// Sums of squares of the gradients of trainable(), in that order: one for a whole parameter, one for each norm block
  /// of a part. With step_in_backward as they were when they had landed.
  [[nodiscard]] std::vector<double> gradient_square_sums() const;
  /// Waits for all that is under way. Before an optimizer writes to resident weights, and for timings.
  void complete();

  /// What this rank holds now.
  [[nodiscard]] MemoryUse memory() const;
  /// Since the model was made.
  [[nodiscard]] TransferTimes transfer_times() const;

  /// Calls `test` on everything under way; may be called between kernels. Throws CommunicationError where it failed.
  void poll();

  /// True when every unit was reduced in every pass of this step: owners hold the full gradient.
  [[nodiscard]] bool gradients_ready() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Global norm (L2, in double) of the raw gradients after the last pass: sums of squares over norm_block elements of
/// each parameter, folded in canonical order: the same bits for every W and plan. Also carries `failures` (of the last
/// optimizer step) to all ranks.
struct GradientNorm {
  double norm = 0;            ///< NaN or infinity when any gradient is not finite
  bool finite = true;         ///< the one decision for all ranks: skip the step when false
  std::int64_t failures = 0;  ///< sum over the ranks of a shard group
};
/// Collective. Throws ContractError before the last unit of the last pass has been reduced, and CommunicationError as
/// Communicator::all_gather does.
GradientNorm gradient_norm(ShardedModel& model, std::int64_t failures = 0);

/// Left fold by micro-batch index (pass * W + rank) of every rank's losses, one per pass, inside groups of `sum_group`
/// first, as of gradients: the same bits on every rank, at every W. Collective. Throws CommunicationError on every rank
/// where one has another number of losses (both numbers), and as Communicator::all_gather does; InputError where
/// sum_group is less than 1, or does not divide the number of all losses.
double fold_losses(Communicator& communicator, const std::vector<double>& losses, std::int64_t sum_group = 1);

/// Factor on gradients that brings `norm` down to `max_norm`: min(1, max_norm / norm). No clipping (1) where max_norm
/// is 0 or less, or `norm` is NaN; 0 for an infinite norm.
double clip_scale(double norm, double max_norm);

}  // namespace matrixfsdp
