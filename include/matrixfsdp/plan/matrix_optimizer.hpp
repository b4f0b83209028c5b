#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>

/// Which optimizer steps matrices, and what those that keep Kronecker factors cost: Shampoo (Gupta, Koren, Singer 2018,
/// arXiv 1802.09568) and SOAP (Vyas et al. 2024, arXiv 2409.11321).
namespace matrixfsdp {
/// What steps matrices.
enum class MatrixOptimizer {
  muon,     ///< orthogonalizes the momentum
  shampoo,  ///< multiplies by inverse fourth roots of both factors
  soap,     ///< AdamW in the eigenbasis of both factors
  adamw,    ///< no matrix optimizer: AdamW steps everything
};

/// All, in the order above.
const std::vector<MatrixOptimizer>& matrix_optimizers();
/// "muon", "shampoo", "soap", "adamw". Throws InputError for any other name.
MatrixOptimizer parse_matrix_optimizer(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(MatrixOptimizer optimizer);

/// Whose norm Shampoo's update has (Anil et al. 2020, arXiv 2002.09018): block by block ||P|| becomes ||P_graft||.
enum class Grafting {
  none,  ///< Shampoo's own
  sgd,   ///< that of the averaged gradient
  adam,  ///< that of Adam's update
};

/// "none", "sgd", "adam". Throws InputError for any other name.
Grafting parse_grafting(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(Grafting grafting);

/// What the cost of Shampoo and SOAP depends on; the same options of both have the same values there.
struct PreconditionerCost {
  std::int64_t frequency = 10;              ///< steps from one refresh of roots or bases to the next, at least 1
  std::int64_t block_size = 1024;           ///< of Shampoo: largest extent of a factor, at least 1
  Grafting grafting = Grafting::adam;       ///< of Shampoo
  std::int64_t largest_dimension = 10'000;  ///< a matrix with a larger extent is stepped by AdamW
};

/// Largest extent of a factor: LAPACK counts its workspace, 2 k^2 numbers and more, in 32 bits.
inline constexpr std::int64_t most_factor_extent = 32'000;

/// Throws InputError that names the field, unless frequency, block size and largest dimension are at least 1, the last
/// two at most most_factor_extent.
void validate(const PreconditionerCost& cost);

/// Pieces of a matrix parameter that have factors of their own, in canonical order. SOAP: its parts (matrix_parts).
/// Shampoo: of each part a grid of blocks, row by row, of block_size rows and columns but for the last ones. Throws as
/// matrix_parts.
std::vector<MatrixPart> preconditioned_blocks(const ParameterSpec& parameter, MatrixOptimizer optimizer,
                                              const PreconditionerCost& cost);

/// Elements of the factors L (m x m) and R (n x n) of all blocks, one kind after the other.
struct FactorElements {
  std::int64_t left = 0;   ///< of all L
  std::int64_t right = 0;  ///< of all R
};
FactorElements factor_elements(const std::vector<MatrixPart>& blocks);  ///< sums over the blocks

/// Numbers of its own that a parameter keeps: steps, and Shampoo's failed roots in a row.
inline constexpr std::int64_t shampoo_counters = 2;
inline constexpr std::int64_t soap_counters = 1;  ///< the same: steps

/// FLOPs of one m x n block. A multiply-add is 2; a symmetric product costs one triangle; eigenvectors of m x m are
/// 9 m^3 by convention (Golub and Van Loan 2013, section 8.3), an orthonormal basis 8 m^3 / 3 (Householder), rounded
/// down. The optimizers' own counts equal these.
struct PreconditionerFlops {
  std::int64_t step = 0;     ///< of every step (Shampoo's before its start step lack the two products)
  std::int64_t refresh = 0;  ///< more, in a step that refreshes
};
/// Shampoo: step  m (m + 1) n + n (n + 1) m (factors), 2 m n (m + n) (both roots), 8 m n by element, and 8 m n more for
/// Adam grafting; refresh 9 m^3 + m (m + 1) m of each factor (eigenvectors, and the root from them).
/// SOAP: step  the same for factors, 4 m n (m + n) (into the basis and back), 14 m n by element; refresh 2 m^3 + 2 m^2
/// + 8 m^3 / 3 of each factor (power step, its eigenvalues, QR), 4 m n (m + n) (first moment from the old to the new
/// basis). Throws InputError beyond 2^62, ContractError for other optimizers.
PreconditionerFlops preconditioner_flops(std::int64_t rows, std::int64_t cols, MatrixOptimizer optimizer,
                                         const PreconditionerCost& cost);

/// Elements of scratch of Shampoo and SOAP; the optimizer has the most of each over its matrices.
struct PreconditionerScratch {
  std::int64_t matrices = 0;  ///< float: two (Shampoo) or three m x n
  std::int64_t squares = 0;   ///< float: one (Shampoo) or two of the larger extent k
  std::int64_t values = 0;    ///< float: k
  std::int64_t order = 0;     ///< 32-bit integers (SOAP): k
  std::int64_t reals = 0;     ///< float, of LAPACK: at most 1 + 6 k + 2 k^2, or 65 k
  std::int64_t integers = 0;  ///< 32-bit integers, of LAPACK: 3 + 5 k
  std::int64_t sums = 0;      ///< double: square_sum_blocks of the whole parameter

  void include(const PreconditionerScratch& other);  ///< makes room for `other` too: the larger of each
  [[nodiscard]] std::int64_t bytes() const {         ///< of all of it
    return 4 * (matrices + squares + values + order + reals + integers) + 8 * sums;
  }
};
/// Of all blocks of a parameter. Throws as preconditioned_blocks.
PreconditionerScratch preconditioner_scratch(const ParameterSpec& parameter, MatrixOptimizer optimizer,
                                             const PreconditionerCost& cost);

}  // namespace matrixfsdp
