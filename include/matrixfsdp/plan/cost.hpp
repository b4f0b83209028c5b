#pragma once

#include <cstdint>
#include <string_view>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp {

enum class NewtonSchulzAlgorithm { standard, gram, gram_no_restart, automatic };

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
/// InputError beyond 2^62.
std::int64_t newton_schulz_flops(std::int64_t rows, std::int64_t cols, int steps, NewtonSchulzAlgorithm algorithm,
                                 DType dtype = DType::float32);

/// Entries of a block over which squares of a matrix are summed, in whole rows or pieces of one row.
inline constexpr std::int64_t square_sum_entries = 4096;

/// Number of those blocks; 0 for an empty matrix.
std::int64_t square_sum_blocks(std::int64_t rows, std::int64_t cols);

/// Elements of scratch of `orthogonalize`; its workspace has the most of each over the matrices it was used for.
struct NewtonSchulzScratch {
  std::int64_t iterate = 0;   ///< float: m x n; none in bfloat16
  std::int64_t products = 0;  ///< float: two (standard), four or (bfloat16) one m x m, m the smaller extent
  std::int64_t sums = 0;      ///< double: square_sum_blocks
  std::int64_t rounded = 0;   ///< bfloat16: two m x n and two m x m

  void include(const NewtonSchulzScratch& other);
  [[nodiscard]] std::int64_t bytes() const { return 4 * (iterate + products) + 8 * sums + 2 * rounded; }
};
NewtonSchulzScratch newton_schulz_scratch(std::int64_t rows, std::int64_t cols, NewtonSchulzAlgorithm algorithm,
                                          int steps, DType dtype = DType::float32);

/// What an optimizer costs its owner, for the planner and the memory prediction.
struct OptimizerCost {
  NewtonSchulzAlgorithm algorithm = NewtonSchulzAlgorithm::automatic;
  int newton_schulz_steps = 5;
  bool matrices_on_adamw = false;  ///< --optimizer adamw: no matrix work, two moments for everything
  DType newton_schulz_dtype = DType::float32;
};

/// FLOPs of one step on a parameter (all parts); 0 when frozen. By convention AdamW counts 12 FLOPs per element, Muon's
/// element-wise part 6. Throws as matrix_parts and newton_schulz_flops do.
std::int64_t step_flops(const ParameterSpec& parameter, const OptimizerCost& cost);

/// float32 state elements kept per parameter element: 1 (Muon), 2 (AdamW), 0 (frozen).
std::int64_t state_elements(const ParameterSpec& parameter, const OptimizerCost& cost);

/// Bytes that the holder of one element of `parameter` keeps: 4 (weight) + 4 (gradient) + 4 * state_elements; 4 when
/// frozen.
std::int64_t resident_bytes_per_element(const ParameterSpec& parameter, const OptimizerCost& cost);

}  // namespace matrixfsdp
