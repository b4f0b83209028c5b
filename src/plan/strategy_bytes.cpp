#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/strategy_matrices.hpp"

namespace matrixfsdp {
namespace {

constexpr std::int64_t element_bytes = 4;
constexpr std::int64_t scalar_bytes = 16;  // a double to each other rank, and its length

/// Adds what each rank sends to one figure of its load.
class Sender {
 public:
  Sender(std::vector<StrategyLoad>& loads, std::int64_t StrategyLoad::*figure, const Topology& topology)
      : loads_(loads), figure_(figure), topology_(topology) {}

  void gather(CollectiveAlgorithm algorithm, const SegmentTable& table, std::int64_t bytes_per_element) {
    if (ranks() == 1) return;
    if (algorithm == CollectiveAlgorithm::allgatherv) {  // as a ring sends
      for (int rank = 0; rank < ranks(); ++rank)
        add(rank, bytes_per_element * table.shard_size(rank) * (ranks() - 1));
      return;
    }
    const std::vector<TransferCounts> counts = unshard_counts(algorithm, table, topology_);
    for (int rank = 0; rank < ranks(); ++rank)
      add(rank, bytes_per_element * counts[static_cast<std::size_t>(rank)].sent);
  }

  /// A double of every rank to every other.
  void scalars() {
    for (int rank = 0; rank < ranks(); ++rank)
      add(rank, scalar_bytes * (ranks() - 1));
  }

  void add(int rank, std::int64_t bytes) { loads_[static_cast<std::size_t>(rank)].*figure_ += bytes; }
  [[nodiscard]] int ranks() const { return topology_.world_size(); }
  [[nodiscard]] const Topology& topology() const { return topology_; }

 private:
  std::vector<StrategyLoad>& loads_;
  std::int64_t StrategyLoad::*figure_;
  const Topology& topology_;
};

UnitAlgorithms algorithms_of(const StrategyCostOptions& options, std::size_t unit) {
  return options.memory.collectives.empty() ? UnitAlgorithms{options.collective} : options.memory.collectives[unit];
}

void add_unshard(const ModelSpec& model, const Plan& plan, const StrategyCostOptions& options,
                 const std::vector<UnitPolicy>& policies, Sender& sender) {
  const std::vector<std::int64_t> fetches = fetches_per_step(model, plan, options.memory);
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const auto bytes = static_cast<std::int64_t>(size_of(policies[u].param_dtype));
    if (fetches[u] > 0)
      sender.gather(algorithms_of(options, u).unshard, segment_table(plan.units[u].weights), fetches[u] * bytes);
  }
}

/// Elements of gradients, which travel as the policy says, that a rank sends in each pass; all else are sums, float32.
std::int64_t gradients_sent(const Reduce& reduce, int rank) {
  if (reduce.algorithm == CollectiveAlgorithm::tree) {
    const int ranks = reduce.world_size();
    const TreePosition place = tree_position((rank - reduce.root + ranks) % ranks, ranks);
    return place.parent < 0 ? 0 : place.size * reduce.table.size;
  }
  std::int64_t held = 0;
  for (const Piece& piece : reduce.held_by(rank))
    held += piece.elements.size();
  return reduce.table.size - held;
}

void add_reduce(const Plan& plan, const StrategyCostOptions& options, const std::vector<UnitPolicy>& policies,
                Sender& sender) {
  const std::int64_t passes = options.memory.unsharded_accumulation ? 1 : options.memory.passes;
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    const auto wire = static_cast<std::int64_t>(size_of(policies[u].reduce_dtype));
    const UnitAlgorithms algorithms = algorithms_of(options, u);
    const Reduce reduce = prepare_reduce(
        plan, u, sender.topology(), {passes, policies[u].reduce_dtype, options.memory.sum_group}, algorithms.reduce);
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::vector<TransferCounts> counts = reduce_counts(reduce, sender.topology(), pass);
      for (int rank = 0; rank < sender.ranks(); ++rank) {
        const std::int64_t gradients = gradients_sent(reduce, rank);
        sender.add(rank, wire * gradients + element_bytes * (counts[static_cast<std::size_t>(rank)].sent - gradients));
      }
    }
    if (plan.replicated) sender.gather(algorithms.unshard, reduce.table, element_bytes);
  }
}

void add_new_weights(const Plan& plan, const StrategyCostOptions& options, Sender& sender) {
  for (std::size_t u = 0; u < plan.units.size(); ++u) {
    if (plan.units[u].gradients.size > 0)
      sender.gather(algorithms_of(options, u).unshard, segment_table(plan.units[u].weights), element_bytes);
  }
}

void add_gathered(const std::vector<detail::TrainableMatrix>& matrices, const StrategyCostOptions& options,
                  Sender& sender) {
  for (const detail::TrainableMatrix& matrix : matrices) {
    for (const RowBlock& block : row_blocks(*matrix.spec))
      sender.gather(options.collective, row_table(block.rows, block.cols, sender.ranks()), element_bytes);
  }
}

/// Rows to the rank that orthogonalizes, and back.
void add_exchanged(const std::vector<detail::TrainableMatrix>& matrices, const std::vector<std::int64_t>& round,
                   Sender& sender) {
  for (int owner = 0; owner < sender.ranks(); ++owner) {
    const std::int64_t index = round[static_cast<std::size_t>(owner)];
    if (index < 0) continue;
    const detail::TrainableMatrix& matrix = matrices[static_cast<std::size_t>(index)];
    for (int rank = 0; rank < sender.ranks(); ++rank) {
      const std::int64_t rows = detail::row_elements_of(*matrix.spec, rank, sender.ranks());
      sender.add(rank, element_bytes * (rank == owner ? matrix.size() - rows : rows));
    }
  }
}

/// One matrix of fsdp2's iteration.
void add_iteration(const MatrixPart& part, const StrategyCostOptions& options, Sender& sender) {
  const int steps = options.memory.optimizer.newton_schulz_steps;
  if (part.rows <= part.cols) {
    sender.gather(options.collective, row_table(part.rows, part.cols, sender.ranks()), element_bytes * steps);
    return;
  }
  const SegmentTable chunks = even_table(part.cols * part.cols, sender.ranks());
  for (int rank = 0; rank < sender.ranks(); ++rank)
    sender.add(rank, element_bytes * steps * (chunks.size - chunks.shard_size(rank)));
  sender.gather(options.collective, chunks, element_bytes * steps);
  sender.scalars();
}

void add_optimizer(StrategyKind kind, const ModelSpec& model, const Plan& plan, const StrategyCostOptions& options,
                   Sender& sender) {
  if (kind == StrategyKind::zero1_owner) add_new_weights(plan, options, sender);
  if (!plan.row_shards || options.memory.optimizer.matrices == MatrixOptimizer::adamw) return;
  const std::vector<detail::TrainableMatrix> matrices = detail::trainable_matrices(model);
  if (kind == StrategyKind::fsdp2_gather) add_gathered(matrices, options, sender);
  if (kind == StrategyKind::fsdp2_alltoall) {
    for (const auto& round : orthogonalizing_rounds(model, plan.world_size, options.memory.optimizer))
      add_exchanged(matrices, round, sender);
  }
  if (kind != StrategyKind::fsdp2) return;
  for (const detail::TrainableMatrix& matrix : matrices) {
    for (const MatrixPart& part : matrix_parts(*matrix.spec))
      add_iteration(part, options, sender);
    sender.scalars();
  }
}

}  // namespace

std::vector<StrategyLoad> strategy_loads(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                         const Topology& topology, const StrategyCostOptions& options) {
  if (topology.world_size() != plan.world_size) {
    throw ContractError(
        fmt::format("strategy loads for W = {}: the topology has {} ranks", plan.world_size, topology.world_size()));
  }
  require_supported(kind, options.memory.optimizer.matrices);
  StrategyCostOptions all = options;
  all.memory.resident_weights = kind == StrategyKind::zero1_owner;
  if (kind != StrategyKind::matrix_fsdp) all.memory.step_in_backward = false;
  const std::vector<UnitPolicy> policies = resolve(all.memory.policies, model, plan.world_size);
  for (const UnitPolicy& policy : policies) {
    if (policy.reshard_to > 1) {
      throw ContractError(fmt::format("strategy loads with reshard to {}: expected 0 or 1", policy.reshard_to));
    }
  }
  const PlanReport planned = report(model, plan, all.memory);
  const std::vector<std::int64_t> workspaces = detail::strategy_workspaces(kind, model, plan, all);
  const std::vector<std::int64_t> flops = detail::strategy_flops(kind, model, plan, all);
  std::vector<StrategyLoad> loads(planned.ranks.size());
  for (std::size_t r = 0; r < loads.size(); ++r) {
    loads[r].resident_bytes = planned.ranks[r].owned_bytes;
    loads[r].window_bytes = planned.ranks[r].window_bytes;
    loads[r].workspace_bytes = workspaces[r];
    loads[r].flops = flops[r];
  }
  if (plan.world_size == 1) return loads;
  Sender unshard(loads, &StrategyLoad::unshard_bytes, topology);
  add_unshard(model, plan, all, policies, unshard);
  Sender reduce(loads, &StrategyLoad::reduce_bytes, topology);
  add_reduce(plan, all, policies, reduce);
  Sender optimizer(loads, &StrategyLoad::optimizer_bytes, topology);
  add_optimizer(kind, model, plan, all, optimizer);
  return loads;
}

}  // namespace matrixfsdp
