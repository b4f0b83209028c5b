#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/comm/progress.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>

#include "fsdp/unit.hpp"

namespace matrixfsdp {

struct ShardedModel::Implementation {
  Implementation(Communicator& communicator, ModelSpec model, Plan plan, const ShardedModelOptions& options);
  /// Waits for what is under way, because messages still land in its storage; while an exception unwinds it leaves that
  /// storage allocated instead.
  ~Implementation();
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  // storage.cpp: what is allocated, once, by the constructor
  void allocate();
  void allocate_unit(std::size_t index, const UnitPolicy& policy, std::int64_t exchanges);
  void allocate_gradients();
  void allocate_storage();
  void allocate_landing();
  void check_resident(const std::vector<UnitPolicy>& policies) const;
  void allocate_held();
  void allocate_gradient_buffers();
  void make_views();
  void make_row_views();
  void add_view(std::size_t unit, std::size_t parameter, Interval elements, const TensorView<float>& weight,
                const TensorView<float>& gradient);
  [[nodiscard]] MemoryUse memory() const;

  // initialize.cpp
  void initialize_weights();

  // life_cycle.cpp
  void unshard(std::size_t index, Phase phase);
  void reshard(std::size_t index);
  void start_unshard(std::size_t index, Phase phase);
  void finish_unshard(std::size_t index);
  void hold(Unit& unit) const;
  void prefetch_after(std::size_t index, Phase phase);
  void set_prefetch(std::size_t index, Phase phase, std::vector<std::size_t> next);
  [[nodiscard]] bool can_take_slot(const Unit& unit) const;
  void take_slot(std::size_t index);
  void take_landing(std::size_t index);
  void send_new_weights();
  void forget_copies(Unit& unit);
  void complete();
  void weights_changed();
  void poll();
  /// Waits, and counts the time.
  void wait(Request& request, double& under_way, double& waited);

  // reduce.cpp
  void begin_step();
  void begin_pass();
  UnitTensors<float>& gradients(std::size_t index);
  void reduce(std::size_t index);
  void wait_for_gradient_buffer(const Unit& unit);
  [[nodiscard]] bool unit_is_reducing(std::size_t index) const;
  void retire_oldest_reduce();
  void finish_reduces();
  [[nodiscard]] TensorView<float> gradient_to_send(const Unit& unit, std::size_t turn) const;
  [[nodiscard]] TensorView<float> own_chunk(const Unit& unit) const;
  [[nodiscard]] bool gradients_ready() const;

  // step_in_backward.cpp
  void close(std::size_t index);
  void free_gradient_slot(std::size_t index);
  void land(std::size_t index);
  void step_what_has_landed();
  void step_landed(std::size_t index);
  void retire_what_is_complete();
  void finish_unit_steps();
  [[nodiscard]] std::vector<double> gradient_square_sums() const;

  /// In the first step: all ranks must be about to issue the same operation (CommunicationError that names both).
  void announce(const char* operation, std::size_t unit, const char* phase);
  [[nodiscard]] Unit& at(std::size_t unit);
  /// Rank of the plan.
  [[nodiscard]] int member() const { return communicator.rank() - group.first; }
  [[nodiscard]] UnitAlgorithms collectives_of(std::size_t unit) const {
    return options.unit_collectives.empty() ? UnitAlgorithms{options.collective, options.reduce_collective}
                                            : options.unit_collectives[unit];
  }
  /// The shards are whole units on this rank.
  [[nodiscard]] bool whole_here() const { return plan.replicated || plan.world_size == 1; }
  /// Weights are copied out after they have arrived, and gradients copied in before they travel.
  [[nodiscard]] bool copies() const { return plan.row_shards && !whole_here(); }
  /// The unit has storage of its own, and stays from forward to backward.
  [[nodiscard]] bool is_kept(std::size_t unit) const {
    return model.units[unit].keep || units[unit].policy.reshard_to == 1;
  }
  /// Gradients are exchanged once a step, and each unit's is needed no longer than until it is stepped.
  [[nodiscard]] bool shares_gradients() const {
    return options.step_in_backward && (options.passes == 1 || options.accumulation == Accumulation::unsharded);
  }
  /// The step has come to the pass whose gradients are stepped in backward.
  [[nodiscard]] bool steps_now() const { return options.step_in_backward && pass + 1 == options.passes; }
  /// The shard is also what is computed with.
  [[nodiscard]] bool is_resident(const Unit& unit) const {
    return (whole_here() || options.resident_weights) && unit.policy.param_dtype == DType::float32;
  }

  Communicator& communicator;
  ModelSpec model;
  Plan plan;
  ShardedModelOptions options;
  RankGroup group;     ///< this rank's shard group
  Topology all_nodes;  ///< of all ranks
  Topology topology;   ///< of the shard group
  std::vector<Unit> units;
  std::vector<Tensor<float>> slots;
  std::vector<std::int64_t> slot_occupant;  ///< unit, or -1
  std::vector<Tensor<float>> kept_storage;
  std::vector<Tensor<float>> landings;          ///< of row shards
  std::vector<std::int64_t> landing_occupant;   ///< unit that arrives or has arrived there, or -1
  std::vector<Tensor<float>> travelling;        ///< gradients of row shards, one for each reduce that may be under way
  std::vector<Tensor<float>> gradient_storage;  ///< the shared buffers first, then those of kept units
  std::vector<Tensor<float>> shared_sums;       ///< one for each reduce that may be under way, when a step has one pass
  std::vector<Tensor<float>> gradient_shards;   ///< one for each unit, or for each gradient in flight
  std::deque<std::size_t> reducing;             ///< units whose reduce may be under way, the oldest first
  std::deque<std::size_t> landed;               ///< units whose gradients have landed, not stepped yet
  std::function<void(std::size_t)> step_unit;   ///< of step in backward
  std::vector<std::size_t> gathering;           ///< units of a replicated plan whose sums come from their chunks
  std::int64_t reduces_issued = 0;
  TransferTimes times;
  std::optional<ProgressThread> progress;
  int exceptions_at_start = std::uncaught_exceptions();
  std::int64_t shared_gradient_unit = -1;  ///< unit that fills a shared gradient buffer now
  std::vector<ParameterView> resident_views;
  std::vector<ParameterView> trainable_views;
  std::int64_t step = 0;
  std::int64_t pass = -1;
};

const char* name_of(Phase phase);

}  // namespace matrixfsdp
