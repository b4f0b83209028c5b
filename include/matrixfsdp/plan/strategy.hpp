#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

/// @file
/// MatrixFSDP and its peers: where their shards live, and what a step costs each rank. Bytes and memory are exact: the
/// runtime (baselines/strategy.hpp) counts the same.
namespace matrixfsdp {

/// MatrixFSDP, and what it is measured against.
enum class StrategyKind {
  matrix_fsdp,     ///< whole matrices on owners: the optimizer step sends nothing
  fsdp2,           ///< even row shards; every Newton-Schulz step gathers the matrix, ranks compute their rows of it
  fsdp2_gather,    ///< even row shards; each matrix is gathered once, and every rank orthogonalizes it
  fsdp2_alltoall,  ///< even row shards; each matrix goes to one rank, is orthogonalized there, and its rows come back
  zero1_owner,     ///< weights whole on every rank; owners step, then send the new weights to all
  ddp,             ///< everything on every rank
};

/// All, in the order above.
const std::vector<StrategyKind>& strategy_kinds();
/// "matrix-fsdp", "fsdp2", "fsdp2-gather", "fsdp2-alltoall", "zero1-owner", "ddp". Throws InputError for any other
/// name.
StrategyKind parse_strategy(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(StrategyKind kind);
/// What it does, in a line, for --help.
std::string_view summary_of(StrategyKind kind);

/// fsdp2, fsdp2-gather and fsdp2-alltoall: the plan is make_row_plan.
bool has_row_shards(StrategyKind kind);

/// Whether the strategy can run that optimizer. Row shards give no rank a whole matrix, which Shampoo and SOAP need for
/// their factors.
bool supports(StrategyKind kind, MatrixOptimizer optimizer);
/// Throws InputError that names both, and the strategies that can, unless supports().
void require_supported(StrategyKind kind, MatrixOptimizer optimizer);

/// make_plan, make_row_plan or make_replicated_plan. Throws as they do.
Plan make_strategy_plan(StrategyKind kind, const ModelSpec& model, int world_size, const PlannerOptions& planner = {});

/// Matrices ahead of the one that is orthogonalized whose rows are gathered already (fsdp2-gather), unless asked
/// otherwise.
inline constexpr std::int64_t default_matrices_ahead = 1;

/// What the loads of a strategy depend on, besides model, plan and nodes.
struct StrategyCostOptions {
  MemoryOptions memory;  ///< runtime and optimizer; its policies are those of what travels
  CollectiveAlgorithm collective = CollectiveAlgorithm::scatter;  ///< of unshard and of what the optimizer gathers
  std::int64_t matrices_ahead = default_matrices_ahead;           ///< of fsdp2-gather; all of them: the published form
};

/// Of one rank.
struct StrategyLoad {
  std::int64_t unshard_bytes = 0;    ///< sent in one step
  std::int64_t reduce_bytes = 0;     ///< sent in one step
  std::int64_t optimizer_bytes = 0;  ///< sent in one step, after backward
  std::int64_t flops = 0;            ///< of the optimizer step
  std::int64_t resident_bytes = 0;   ///< weights, gradients, optimizer state
  std::int64_t window_bytes = 0;     ///< unsharded units, gradient buffers, staging, running sums
  std::int64_t workspace_bytes = 0;  ///< scratch of the optimizer, with the matrices that it gathers

  /// All that a rank holds but activations.
  [[nodiscard]] std::int64_t peak_bytes() const { return resident_bytes + window_bytes + workspace_bytes; }
};

/// Of every rank, with `plan` from make_strategy_plan, nodes as in `topology` (the bytes of some algorithms depend on
/// it). W ranks in one shard group, A passes, float32 unless the policies say otherwise. Sums over ranks, in bytes,
/// with E_u the elements of unit u, F_u how often a step fetches it (see fetches_per_step), G the trainable elements,
/// and for each trainable matrix m x n, of which rank r holds the elements n_r:
///   unshard    4 (W - 1) sum_u F_u E_u; nothing for zero1-owner and ddp
///   reduce     4 (W - 1) A G, and the sums that helpers bring to their owners after the last pass (see reduce_counts);
///              ddp: 4 (W - 1) (A + 1) G
///   optimizer  matrix-fsdp, ddp: 0. With --optimizer adamw also the three fsdp2: 0.
///     fsdp2           m <= n: 4 (W - 1) S m n, S Newton-Schulz steps;  m > n: 8 (W - 1) S n^2 + 16 W (W - 1);
///                     and 16 W (W - 1) once for each parameter
///     fsdp2-gather    4 (W - 1) m n
///     fsdp2-alltoall  8 (m n - n_r), r the rank that orthogonalizes it
///     zero1-owner     4 (W - 1) E_u for each unit with trainable parameters
/// Memory of a rank: that of report(), and scratch of the optimizer: for the largest matrix u of those that the rank
/// orthogonalizes its direction and newton_schulz_scratch, 4 u + ... (Shampoo and SOAP: preconditioner_scratch); for
/// fsdp2-gather 4 (ahead + 1) u + ...; for
/// fsdp2-alltoall three rounds, each with the rank's rows of W - 1 matrices and one whole one; for fsdp2 the rows that
/// the rank has of a matrix, the gathered matrix, and the factors of the iteration. Throws as report and
/// require_supported do.
std::vector<StrategyLoad> strategy_loads(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                         const Topology& topology, const StrategyCostOptions& options);

/// How often one step of `passes` passes unshards each unit: forward through all units, then backward from the last one
/// to unit 1; kept units, and those that stay from forward to backward, once; others as often as their storage
/// (prefetch
/// + 1 slots, one where `row_shards`) was taken in between. 0 where the shards are the whole unit.
std::vector<std::int64_t> fetches_per_step(const ModelSpec& model, const Plan& plan, const MemoryOptions& options);

/// Rounds of fsdp2-alltoall: in round k rank r orthogonalizes the trainable matrix parameter rounds[k][r] (its number
/// in canonical order; -1: none). Largest first (step_flops) to the lightest rank (LPT; Graham 1969), which takes its
/// own largest first.
std::vector<std::vector<std::int64_t>> orthogonalizing_rounds(const ModelSpec& model, int world_size,
                                                              const OptimizerCost& cost);

/// Rounds of fsdp2-alltoall that have buffers: one arrives, one is orthogonalized, one returns.
inline constexpr std::int64_t rounds_in_flight = 3;

/// FLOPs of the products of one rank, which holds `rows_here` rows of `most_rows` at most on any rank, in fsdp2's
/// iteration on the row shards of a rows x cols matrix:
///   rows <= cols: each step forms rows A = X_r X^T, Y = A X, Q = b A + c Y X^T and a X_r + Q X: 8 rows_here rows cols
///   rows > cols:  each step sums X_r^T X_r over ranks; then X_r (b G + c G^2) by the cheaper of a square (which every
///                 rank does alike) and one more product
std::int64_t sharded_newton_schulz_flops(std::int64_t rows, std::int64_t cols, std::int64_t rows_here,
                                         std::int64_t most_rows, int steps);
/// Elements that such a rank of `world_size` reads and writes beside these products:
///   rows <= cols: each step copies X_r to where a X_r + Q X begins, and the result back
///   rows > cols:  each step sums its chunk of all ranks' X_r^T X_r, and copies G and X_r and the result back where it
///                 squares, else scales and adds in place
std::int64_t sharded_newton_schulz_copies(std::int64_t rows, std::int64_t cols, std::int64_t rows_here,
                                          std::int64_t most_rows, int world_size, int steps);
/// Of a matrix with rows > cols: G^2 is cheaper than one more product.
bool squares_gram(std::int64_t cols, std::int64_t most_rows);

}  // namespace matrixfsdp
