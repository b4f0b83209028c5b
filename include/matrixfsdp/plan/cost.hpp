#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp {

/// Forms of the Newton-Schulz iteration, of the same polynomials: X is m x n, m <= n (else its transpose).
enum class NewtonSchulzAlgorithm {
  standard,         ///< every step multiplies X
  gram,             ///< steps multiply X X^T, m x m, and X once at the end; one restart from X holds rounding down
  gram_no_restart,  ///< gram without the restart: faster, and less accurate for singular matrices
  automatic,        ///< standard or gram, by the extents (see resolve)
};

/// "standard", "gram", "gram-no-restart", "auto". Throws InputError for any other name.
NewtonSchulzAlgorithm parse_newton_schulz_algorithm(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(NewtonSchulzAlgorithm algorithm);

/// What `automatic` runs for rows x cols: gram where the larger extent is at least 1.5 x the smaller, else standard
/// (Dao AI Lab, Gram Newton-Schulz, 2026; break-even of the flop counts below). Also standard beyond 8 steps, where one
/// restart no longer holds rounding errors of singular matrices down (measured: tests/unit/orthogonalize_accuracy.cpp
/// holds up to 8), and for steps in bfloat16, whose rounding the Gram form amplifies.
NewtonSchulzAlgorithm resolve(NewtonSchulzAlgorithm algorithm, std::int64_t rows, std::int64_t cols, int steps = 5,
                              DType dtype = DType::float32);

/// FLOPs that the kernels of `orthogonalize` do for one rows x cols matrix (a multiply-add is 2). A symmetric product
/// X X^T of an m x n matrix costs m (m + 1) n: one triangle; in bfloat16, where no library has a routine for it, it is
/// cut into blocks, and a little more. Exact: the kernels' own counts equal it. 0 for an empty matrix. Throws
/// ContractError for negative extents or less than one step, and for another algorithm than standard in bfloat16,
/// InputError beyond 2^62. `batched`: of a matrix in a batch (newton_schulz_batch), whose symmetric products are
/// computed in full, as no library has a routine for triangles there.
std::int64_t newton_schulz_flops(std::int64_t rows, std::int64_t cols, int steps, NewtonSchulzAlgorithm algorithm,
                                 DType dtype = DType::float32, bool batched = false);

/// Entries of a block over which squares of a matrix are summed, in whole rows or pieces of one row.
inline constexpr std::int64_t square_sum_entries = 4096;

/// Number of those blocks; 0 for an empty matrix.
std::int64_t square_sum_blocks(std::int64_t rows, std::int64_t cols);

/// Elements of scratch of `orthogonalize`; its workspace has the most of each over the matrices it was used for.
struct NewtonSchulzScratch {
  std::int64_t iterate = 0;   ///< float: m x n, two for each slot of a batch; in bfloat16 none, or one for each slot
  std::int64_t products = 0;  ///< float: two (standard), four or (bfloat16) one m x m, m the smaller extent
  std::int64_t sums = 0;      ///< double: square_sum_blocks
  std::int64_t rounded = 0;   ///< bfloat16: two m x n and two m x m
  std::int64_t slots = 0;     ///< of a batch, newton_schulz_slot_bytes each; none for one matrix

  /// Makes room for `other` too: the larger of each.
  void include(const NewtonSchulzScratch& other);
  /// Bytes of all of it.
  [[nodiscard]] std::int64_t bytes() const;
};
/// Scratch for one rows x cols matrix, or for a batch where `slots` is above 1. Unchecked: no extent is negative.
NewtonSchulzScratch newton_schulz_scratch(std::int64_t rows, std::int64_t cols, NewtonSchulzAlgorithm algorithm,
                                          int steps, DType dtype = DType::float32, std::int64_t slots = 1);

/// Scratch of a batch of matrices on a device is at most this, in bytes of float: as much as a few of the matrices that
/// are large enough to be multiplied one after the other.
inline constexpr std::int64_t newton_schulz_batch_bytes = std::int64_t{64} << 20;
/// Tiles of 128 x 128 entries, one for each multiprocessor: a product of so many fills a large device alone (an H100
/// has 132). What the library's kernels take is not measured.
inline constexpr std::int64_t newton_schulz_batch_tiles = 128;
/// What a batch's kernels know of a slot: where its matrix and its result are, and the norm.
inline constexpr std::int64_t newton_schulz_slot_bytes = 96;

/// Slots of a batch of rows x cols matrices where the BLAS multiplies in batches (linalg::batches_products): as many as
/// fill the device with one m x m product of each, m the smaller extent, and fit into newton_schulz_batch_bytes. 1:
/// they are not batched, and neither are empty ones. By shape, algorithm and steps alone, never by how
/// many matrices of the shape a rank has: a batch always multiplies all of its slots, with zeros where there is no
/// matrix, which fills what the device would leave idle, so that the library's choice of a kernel, and the bits of a
/// result, do not depend on W. Throws ContractError for negative extents or less than one step.
std::int64_t newton_schulz_batch(std::int64_t rows, std::int64_t cols, int steps, NewtonSchulzAlgorithm algorithm,
                                 DType dtype = DType::float32);

/// What an optimizer costs its owner, for the planner and the memory prediction.
struct OptimizerCost {
  /// Of Muon: NewtonSchulzOptions.
  NewtonSchulzAlgorithm algorithm = NewtonSchulzAlgorithm::automatic;
  /// Of Muon, at least 1.
  int newton_schulz_steps = 5;
  MatrixOptimizer matrices = MatrixOptimizer::muon;  ///< what steps matrices
  PreconditionerCost preconditioner;                 ///< of Shampoo and SOAP
  DType newton_schulz_dtype = DType::float32;        ///< of Muon
  /// Matrices that one rank steps at once, each worker with scratch of its own: at least 1.
  int workers = 1;
  /// Of Muon: matrices of one shape are orthogonalized in batches (newton_schulz_batch), as on a CUDA device.
  bool batches = false;
};

/// newton_schulz_batch of a part where cost.batches is set, else 1. Throws as that.
std::int64_t newton_schulz_slots(const MatrixPart& part, const OptimizerCost& cost);

/// newton_schulz_flops of a part, batched where newton_schulz_slots is above 1. Throws as that.
std::int64_t newton_schulz_flops(const MatrixPart& part, const OptimizerCost& cost);

/// Parameters of one shape that Muon steps together: as many as fill a batch of each of their parts, at least 1. 1
/// without cost.batches, and for other optimizers. Throws as newton_schulz_slots and matrix_parts.
std::int64_t stepped_together(const ParameterSpec& parameter, const OptimizerCost& cost);

/// The optimizer that steps a parameter: `cost.matrices` for a matrix, but AdamW where Shampoo or SOAP would meet a
/// part with an extent above largest_dimension; AdamW for tails. Goes by the global shape alone. Throws as
/// matrix_parts.
MatrixOptimizer optimizer_of(const ParameterSpec& parameter, const OptimizerCost& cost);

/// Number of matrices that one step of the matrix optimizer changes: the parts (matrix_parts) of the trainable
/// parameters that it steps.
std::int64_t stepped_matrix_count(const ModelSpec& model, const OptimizerCost& cost);

/// FLOPs of one step on a parameter (all parts); 0 when frozen. By convention AdamW counts 12 FLOPs per element, Muon's
/// element-wise part 6. Of Shampoo and SOAP each block's preconditioner_flops, those of the refreshes shared out among
/// the steps between them: step + refresh / frequency, rounded down. Throws as matrix_parts, newton_schulz_flops and
/// preconditioner_flops do.
std::int64_t step_flops(const ParameterSpec& parameter, const OptimizerCost& cost);

/// Bytes of optimizer state (float32) that the holder of `elements` elements of a parameter keeps: one number for each
/// (Muon), two (AdamW), none when frozen. A matrix of m x n (each block, see preconditioned_blocks) with all its
/// elements: Shampoo m n + 2 (m^2 + n^2), and m n more for Adam grafting, SOAP 2 m n + 2 (m^2 + n^2), and counters for
/// the whole parameter. Throws ContractError for a part of a matrix of these two.
std::int64_t state_bytes(const ParameterSpec& parameter, std::int64_t elements, const OptimizerCost& cost);

/// Bytes that the holder of `elements` elements of a parameter keeps: 4 (weight) + 4 (gradient) for each, and
/// state_bytes; 4 for each when frozen.
std::int64_t resident_bytes(const ParameterSpec& parameter, std::int64_t elements, const OptimizerCost& cost);

/// Scratch of the matrix optimizer for one matrix after the other: of one worker.
struct MatrixScratch {
  std::int64_t direction = 0;            ///< float (Muon): the largest parameter, or stepped_together of them
  NewtonSchulzScratch newton_schulz;     ///< of Muon
  PreconditionerScratch preconditioner;  ///< of Shampoo and SOAP
  /// Makes room for a parameter, whichever optimizer steps it. Throws as optimizer_of and matrix_parts.
  void include(const ParameterSpec& parameter, const OptimizerCost& cost);
  /// Of all of it.
  [[nodiscard]] std::int64_t bytes() const { return 4 * direction + newton_schulz.bytes() + preconditioner.bytes(); }
};

/// Bytes of scratch of the matrix optimizer on a rank that steps these trainable parameters (in canonical order), on
/// cost.workers workers: each has room for all that it may get (WorkerLists::most_of, by step_flops). Parameters that
/// AdamW steps are left out. Throws as step_flops, and as WorkerLists.
std::int64_t matrix_scratch_bytes(const std::vector<const ParameterSpec*>& parameters, const OptimizerCost& cost);

}  // namespace matrixfsdp
