#include <algorithm>

#include "plan/strategy_matrices.hpp"

namespace matrixfsdp {

bool squares_gram(std::int64_t cols, std::int64_t most_rows) {
  return cols + 1 <= 2 * most_rows;
}

std::int64_t sharded_newton_schulz_flops(std::int64_t rows, std::int64_t cols, std::int64_t rows_here,
                                         std::int64_t most_rows, int steps) {
  if (rows <= cols) return steps * 8 * rows_here * rows * cols;
  const std::int64_t gram = cols * (cols + 1) * rows_here;
  const std::int64_t product = 2 * rows_here * cols * cols;
  const std::int64_t second = squares_gram(cols, most_rows) ? cols * (cols + 1) * cols : product;
  return steps * (gram + product + second);
}

std::int64_t sharded_newton_schulz_copies(std::int64_t rows, std::int64_t cols, std::int64_t rows_here,
                                          std::int64_t most_rows, int world_size, int steps) {
  const std::int64_t shard = rows_here * cols;
  if (rows <= cols) return steps * 4 * shard;
  const std::int64_t gram = cols * cols;
  const std::int64_t sum = (world_size + 1) * (gram / world_size);
  return steps * (sum + (squares_gram(cols, most_rows) ? 2 * gram + 4 * shard : 3 * shard));
}

namespace detail {
namespace {

constexpr std::int64_t element_bytes = 4;
constexpr std::int64_t muon_flops_per_element = 6;

std::int64_t rows_of(const MatrixPart& part, int rank, int world_size) {
  return row_chunk(part.rows, rank, world_size).size();
}

/// Elements of fsdp2's buffers on one rank.
struct Sharded {
  std::int64_t update = 0;    ///< this rank's rows of a parameter
  std::int64_t gathered = 0;  ///< a matrix with rows <= cols
  std::int64_t factor = 0;    ///< its rows of X X^T
  std::int64_t product = 0;   ///< rows of a matrix
  std::int64_t gram = 0;      ///< of a matrix with rows > cols
  std::int64_t square = 0;
  std::int64_t arriving = 0;  ///< of other ranks' Gram matrices
  std::int64_t sums = 0;      ///< doubles

  void include(const MatrixPart& part, int rank, int world_size) {
    const std::int64_t here = rows_of(part, rank, world_size);
    product = std::max(product, here * part.cols);
    sums = std::max(sums, square_sum_blocks(here, part.cols));
    if (part.rows <= part.cols) {
      gathered = std::max(gathered, part.rows * part.cols);
      factor = std::max(factor, here * part.rows);
      sums = std::max(sums, square_sum_blocks(part.rows, part.cols));
      return;
    }
    const std::int64_t size = part.cols * part.cols;
    gram = std::max(gram, size);
    if (squares_gram(part.cols, rows_of(part, 0, world_size))) square = std::max(square, size);
    arriving = std::max(arriving, (world_size - 1) * fold_chunk(size, rank, world_size).size());
  }
  [[nodiscard]] std::int64_t bytes() const {
    return element_bytes * (update + gathered + factor + product + gram + square + arriving) + 8 * sums;
  }
};

std::int64_t sharded_bytes(const std::vector<TrainableMatrix>& matrices, int rank, int world_size) {
  Sharded sharded;
  for (const TrainableMatrix& matrix : matrices) {
    sharded.update = std::max(sharded.update, row_elements_of(*matrix.spec, rank, world_size));
    for (const MatrixPart& part : matrix_parts(*matrix.spec))
      sharded.include(part, rank, world_size);
  }
  return sharded.bytes();
}

std::int64_t gathered_bytes(const std::vector<TrainableMatrix>& matrices, const StrategyCostOptions& options) {
  const std::size_t slots =
      std::min(static_cast<std::size_t>(options.matrices_ahead) + 1, std::max<std::size_t>(1, matrices.size()));
  std::vector<std::int64_t> sizes(slots, 0);
  MatrixScratch whole;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    sizes[i % slots] = std::max(sizes[i % slots], matrices[i].size());
    whole.include(*matrices[i].spec, options.memory.optimizer);
  }
  std::int64_t bytes = whole.newton_schulz.bytes();
  for (const std::int64_t size : sizes)
    bytes += element_bytes * size;
  return bytes;
}

std::int64_t exchanged_bytes(const std::vector<TrainableMatrix>& matrices,
                             const std::vector<std::vector<std::int64_t>>& rounds, int rank,
                             const OptimizerCost& cost) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(rounds_in_flight), 0);
  std::vector<std::int64_t> own(rows.size(), 0);
  MatrixScratch whole;
  for (std::size_t k = 0; k < rounds.size(); ++k) {
    std::int64_t here = 0;
    for (const std::int64_t index : rounds[k]) {
      if (index < 0 || index == rounds[k][static_cast<std::size_t>(rank)]) continue;
      here +=
          row_elements_of(*matrices[static_cast<std::size_t>(index)].spec, rank, static_cast<int>(rounds[k].size()));
    }
    rows[k % rows.size()] = std::max(rows[k % rows.size()], here);
    const std::int64_t mine = rounds[k][static_cast<std::size_t>(rank)];
    if (mine < 0) continue;
    const TrainableMatrix& matrix = matrices[static_cast<std::size_t>(mine)];
    own[k % own.size()] = std::max(own[k % own.size()], matrix.size());
    whole.include(*matrix.spec, cost);
  }
  std::int64_t bytes = whole.newton_schulz.bytes();
  for (std::size_t s = 0; s < rows.size(); ++s)
    bytes += element_bytes * (rows[s] + own[s]);
  return bytes;
}

/// Of every rank, where a matrix is orthogonalized by its owner, or by all.
std::vector<std::int64_t> whole_bytes(const std::vector<TrainableMatrix>& matrices, const Plan& plan,
                                      const OptimizerCost& cost) {
  const bool all = plan.replicated || plan.world_size == 1;
  std::vector<std::vector<const ParameterSpec*>> ranks(all ? 1 : static_cast<std::size_t>(plan.world_size));
  for (const TrainableMatrix& matrix : matrices) {
    const int rank = all ? 0 : plan.owner(matrix.unit, matrix.parameter);
    ranks[static_cast<std::size_t>(rank)].push_back(matrix.spec);
  }
  std::vector<std::int64_t> bytes;
  bytes.reserve(ranks.size());
  for (const std::vector<const ParameterSpec*>& parameters : ranks)
    bytes.push_back(matrix_scratch_bytes(parameters, cost));
  if (all) bytes.assign(static_cast<std::size_t>(plan.world_size), std::int64_t{bytes.front()});
  return bytes;
}

std::int64_t rows_workspace_of(StrategyKind kind, const std::vector<TrainableMatrix>& matrices,
                               const std::vector<std::vector<std::int64_t>>& rounds, const Plan& plan, int rank,
                               const StrategyCostOptions& options) {
  if (kind == StrategyKind::fsdp2) return sharded_bytes(matrices, rank, plan.world_size);
  if (kind == StrategyKind::fsdp2_gather) return gathered_bytes(matrices, options);
  return exchanged_bytes(matrices, rounds, rank, options.memory.optimizer);
}

/// Of a matrix in row shards; element by element on its rows, and what is orthogonalized here.
std::int64_t row_flops(StrategyKind kind, const ParameterSpec& spec, int rank, int world_size,
                       const OptimizerCost& cost) {
  std::int64_t flops = muon_flops_per_element * row_elements_of(spec, rank, world_size);
  for (const MatrixPart& part : matrix_parts(spec)) {
    if (kind == StrategyKind::fsdp2) {
      flops += sharded_newton_schulz_flops(part.rows, part.cols, rows_of(part, rank, world_size),
                                           rows_of(part, 0, world_size), cost.newton_schulz_steps);
    } else if (kind == StrategyKind::fsdp2_gather) {
      flops += newton_schulz_flops(part, cost);
    }
  }
  return flops;
}

std::int64_t whole_newton_schulz_flops(const ParameterSpec& spec, const OptimizerCost& cost) {
  return step_flops(spec, cost) - muon_flops_per_element * element_count(spec.shape);
}

}  // namespace

std::vector<std::int64_t> strategy_workspaces(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                              const StrategyCostOptions& options) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(plan.world_size), 0);
  if (options.memory.optimizer.matrices == MatrixOptimizer::adamw) return bytes;
  const std::vector<TrainableMatrix> matrices = trainable_matrices(model);
  if (!plan.row_shards || plan.world_size == 1) return whole_bytes(matrices, plan, options.memory.optimizer);
  std::vector<std::vector<std::int64_t>> rounds;
  if (kind == StrategyKind::fsdp2_alltoall)
    rounds = orthogonalizing_rounds(model, plan.world_size, options.memory.optimizer);
  for (int rank = 0; rank < plan.world_size; ++rank)
    bytes[static_cast<std::size_t>(rank)] = rows_workspace_of(kind, matrices, rounds, plan, rank, options);
  return bytes;
}

std::vector<std::int64_t> strategy_flops(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                         const StrategyCostOptions& options) {
  const OptimizerCost& cost = options.memory.optimizer;
  std::vector<std::int64_t> flops(static_cast<std::size_t>(plan.world_size), 0);
  const bool rows = plan.row_shards && plan.world_size > 1 && cost.matrices != MatrixOptimizer::adamw;
  if (!rows) {
    const PlanReport planned = report(model, plan, options.memory);
    for (std::size_t rank = 0; rank < flops.size(); ++rank)
      flops[rank] = planned.ranks[rank].flops;
    return flops;
  }
  for (int rank = 0; rank < plan.world_size; ++rank) {
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& spec : unit.parameters) {
        const bool matrix = kind_of(spec) == ParameterKind::matrix;
        const std::int64_t held = row_elements_of(spec, rank, plan.world_size);
        if (spec.frozen || element_count(spec.shape) == 0) continue;
        flops[static_cast<std::size_t>(rank)] += matrix ? row_flops(kind, spec, rank, plan.world_size, cost)
                                                        : step_flops(spec, cost) / element_count(spec.shape) * held;
      }
    }
  }
  if (kind != StrategyKind::fsdp2_alltoall) return flops;
  const std::vector<TrainableMatrix> matrices = trainable_matrices(model);
  for (const auto& round : orthogonalizing_rounds(model, plan.world_size, cost)) {
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      if (round[rank] >= 0)
        flops[rank] += whole_newton_schulz_flops(*matrices[static_cast<std::size_t>(round[rank])].spec, cost);
    }
  }
  return flops;
}

}  // namespace detail
}  // namespace matrixfsdp
