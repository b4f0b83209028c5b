#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/parameter/parameter_view.hpp>
#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp {

/// How the passes of one step accumulate.
enum class Accumulation {
  chunks,     ///< every pass exchanges; the bits of a run depend on the global batch, not on W (default)
  unsharded,  ///< sum the passes locally in a full gradient, exchange once per step: fewer bytes, more memory, other bits
};

/// Unit life cycle: sharded -> unsharding -> unsharded -> (reshard) sharded.
enum class UnitState { sharded, unsharding, unsharded };

/// In which part of a step a unit is used; for labels, counts and prefetch order.
enum class Phase { forward, backward };

struct ShardedModelOptions {
  int prefetch = 1;  ///< units unsharded ahead of the one that computes; 0: none
  Accumulation accumulation = Accumulation::chunks;
  std::int64_t passes = 1;  ///< per step; fixed, so that running sums are allocated once
  std::uint64_t seed = 1;   ///< of the initial weights
};

/// Bytes this rank holds now, by use (float32 unless said otherwise).
struct MemoryUse {
  std::int64_t weights = 0;        ///< owned shards
  std::int64_t gradients = 0;      ///< owned gradients
  std::int64_t unsharded = 0;      ///< storage of unsharded units
  std::int64_t gradient_buffers = 0;
  std::int64_t running_sums = 0;
  std::int64_t staging_peak = 0;   ///< of the exchange
  [[nodiscard]] std::int64_t total() const {
    return weights + gradients + unsharded + gradient_buffers + running_sums + staging_peak;
  }
};

/// A model whose shards live as `plan` says. Every rank calls the same functions in the same order.
///
/// A step of P passes:
///   begin_step(); per pass: { begin_pass(); units forward: unshard, compute, reshard; units backward: unshard, compute into
///   gradients(u), reduce(u), reshard }; finish_step() then gives owners their gradients; clip and optimizer; end.
class ShardedModel {
 public:
  /// Compares hashes of model, plan and options across ranks (CommunicationError that names what differs), allocates, and fills
  /// the initial weights (see Initialization). Keeps a reference to `communicator`.
  ShardedModel(Communicator& communicator, ModelSpec model, Plan plan, const ShardedModelOptions& options);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  [[nodiscard]] const ModelSpec& spec() const;
  [[nodiscard]] const Plan& plan() const;
  [[nodiscard]] Communicator& communicator() const;
  [[nodiscard]] std::size_t unit_count() const;
  /// Throws InputError for a name that no unit has.
  [[nodiscard]] std::size_t unit_index(const std::string& name) const;

  /// Makes the unit's weights available and counts one use; starts prefetching the next units of `phase`. Throws ContractError
  /// when its storage is still in use by another unit (both names).
  void unshard(std::size_t unit, Phase phase);
  /// Ends one use. At zero uses the storage may be recycled, unless the unit is kept.
  void reshard(std::size_t unit);
  [[nodiscard]] UnitState state(std::size_t unit) const;
  [[nodiscard]] int uses(std::size_t unit) const;

  /// Weights by index within the unit. Throws ContractError with the unit's name unless unsharded. Addresses are the same in
  /// forward and backward.
  [[nodiscard]] UnitTensors<float> weights(std::size_t unit) const;
  /// Gradient buffer, zeroed by its first use in a pass; frozen parameters are empty. One unit at a time, and kept units, have one.
  UnitTensors<float> gradients(std::size_t unit);

  void begin_step();
  void begin_pass();
  /// Adds this rank's gradient buffer of the unit to the running sums; in the last pass brings the sums to the owners. Collective:
  /// every unit once per pass, whether or not anything was written to its gradient (then it counts as zeros).
  void reduce(std::size_t unit);

  /// What this rank holds, in canonical order: trainable segments for the optimizer, all segments (frozen too, gradient empty) for
  /// checkpoints. Valid for the life of the model.
  [[nodiscard]] const std::vector<ParameterView>& trainable() const;
  [[nodiscard]] const std::vector<ParameterView>& resident() const;
  /// After the optimizer or a load has written to the views: unsharded copies are stale, and the next unshard fetches again.
  void weights_changed();

  [[nodiscard]] MemoryUse memory() const;

  /// Calls `test` on everything under way; may be called between kernels.
  void poll();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Global norm of the raw gradients after the last pass: double sums over norm_block elements of each parameter, folded in
/// canonical order: the same bits for every W and plan. Also carries `failures` (of the last optimizer step) to all ranks.
struct GradientNorm {
  double norm = 0;              ///< NaN or infinity when any gradient is not finite
  bool finite = true;           ///< the one decision for all ranks: skip the step when false
  std::int64_t failures = 0;    ///< sum over ranks
};
GradientNorm gradient_norm(const ShardedModel& model, std::int64_t failures = 0);

/// Factor on gradients that brings `norm` down to `max_norm` (0: no clipping): min(1, max_norm / norm).
double clip_scale(double norm, double max_norm);

}  // namespace matrixfsdp
