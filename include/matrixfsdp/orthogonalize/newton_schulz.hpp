#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/linalg/workers.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// One odd quintic p(x) = a x + b x^3 + c x^5, applied to the singular values of a matrix.
struct Quintic {
  double a;  ///< of x
  double b;  ///< of x^3
  double c;  ///< of x^5
};

/// A named sequence of quintics; steps past its end repeat the last one.
struct QuinticSequence {
  std::string_view name;       ///< "polar-express", ...
  std::vector<Quintic> steps;  ///< one for each step, the first one first
  int default_steps;           ///< steps that its source takes

  /// Of step 0, 1, ...; there must be at least one, and no step is negative (unchecked).
  [[nodiscard]] const Quintic& at(int step) const {
    const auto index = static_cast<std::size_t>(step);
    return index < steps.size() ? steps[index] : steps.back();
  }
};

/// "polar-express" (default: Amsel, Persson, Musco, Gower 2025, arXiv 2505.16932, appendix A, safety 1.05 as in Dao AI
/// Lab), "keller-jordan" (Jordan et al. 2024; torch.optim.Muon), "you" (You Jiacheng), "polar-express-8" (8 steps,
/// safety 1.01 except the last), "taylor" (15/8, -10/8, 3/8). Lives as long as the program. Throws InputError that
/// lists the names.
const QuinticSequence& quintic_sequence(std::string_view name);
/// The five names, the default first.
std::vector<std::string_view> quintic_sequence_names();

/// How a matrix is orthogonalized.
struct NewtonSchulzOptions {
  /// automatic: by the matrix's extents (see resolve).
  NewtonSchulzAlgorithm algorithm = NewtonSchulzAlgorithm::automatic;
  const QuinticSequence* coefficients = nullptr;  ///< null: polar-express; not owned, must outlive its users
  int steps = 5;                                  ///< at least 1
  bool measure_residual = false;                  ///< one product more, for OrthogonalizeResult::residual
  /// float32: in the type of the matrix. bfloat16: X, X X^T and the polynomial are rounded to bfloat16, products are
  /// summed in float32, and the last one is not rounded; the standard algorithm, of float matrices.
  DType dtype = DType::float32;
  /// The input is divided by its norm, or by this where the norm is smaller: torch.optim.Muon has 1e-7. 0: by the norm,
  /// so that the result does not depend on the scale of the input. At least 0 and finite.
  double norm_floor = 0;
};

/// How an orthogonalization ended. A matrix that has no answer is a value, not an exception.
enum class OrthogonalizeStatus {
  ok,          ///< the result is the approximate polar factor
  zero,        ///< the input is exactly zero, or empty: the result is zero
  non_finite,  ///< the input has a NaN or an infinity: the result is left as it was
  diverged,    ///< the result is not finite, or its norm is over 4 sqrt(m): see orthogonalize
};

/// What became of one matrix.
struct OrthogonalizeResult {
  /// Whether the output is the polar factor, and if not, why.
  OrthogonalizeStatus status = OrthogonalizeStatus::ok;
  NewtonSchulzAlgorithm algorithm = NewtonSchulzAlgorithm::standard;  ///< what `automatic` has become
  /// Newton-Schulz steps that were done.
  int steps = 0;
  std::int64_t flops = 0;  ///< of the iteration's products: newton_schulz_flops (in a batch its `batched`), or 0 where
                           ///< the status is zero or non_finite
  /// ||O O^T - I||_F / sqrt(m) on the smaller side m of the result O: 0 for orthonormal rows. NaN where it was not
  /// asked for, or the status is not ok.
  double residual = std::numeric_limits<double>::quiet_NaN();
};

/// Scratch that is reused from matrix to matrix: grows to the largest one, never shrinks.
template <class T>
class NewtonSchulzWorkspace {
 public:
  /// Empty. Not inline: GCC 12 evaluates the constexpr default constructor of Kokkos' mdspan-based View (after 4.6) for
  /// local variables, and leaves its reference count wrong.
  NewtonSchulzWorkspace();

  /// Makes room for a rows x cols matrix, rows and cols >= 0, or for a batch of them with `batch` slots
  /// (newton_schulz_scratch). No allocation where it is already large enough. Throws InputError for bfloat16 where
  /// linalg::bfloat16_obstacle names one.
  void reserve(std::int64_t rows, std::int64_t cols, const NewtonSchulzOptions& options, std::int64_t batch = 1);
  /// What reserve has made; the scratch of oneDNN (bfloat16_products) is apart.
  [[nodiscard]] std::int64_t bytes() const;

  Tensor<T> iterate;            ///< m x n, two for each slot of a batch; in bfloat16 none, or one for each slot
  Tensor<T> products;           ///< 2 (standard), 4 (Gram) or 1 (bfloat16) m x m, m the smaller extent
  Tensor<bfloat16> rounded;     ///< bfloat16: 2 m x n and 2 m x m
  Tensor<double> partial_sums;  ///< of the norm
  Tensor<std::uint8_t> slots;   ///< of a batch: what its kernels know of each matrix
  std::unique_ptr<linalg::Bfloat16Products> bfloat16_products;  ///< null until it is needed
  /// Share the products of large matrices, in pieces by shape alone (those in bfloat16 are not cut); from inside of a
  /// part of Workers::run. Null: whole products, with as many threads as linalg::set_threads says. Not owned.
  linalg::Workers* workers = nullptr;
};

/// output <- (approximation of) the polar factor U V^T of input = U S V^T; both rows x cols, they may be the same
/// matrix or not overlap at all. input / ||input||_F, the norm in double without an epsilon floor, so the result does
/// not depend on the scale of the input (2^k G gives the same bits); then `steps` times X <- a X + b (X X^T) X + c (X
/// X^T)^2 X, on the transposed side when rows > cols (Bernstein and Newhouse 2024, arXiv 2409.20325; Jordan et al.
/// 2024). Complete when it returns. Diverged: the output holds what came out. Throws ContractError for extents that
/// differ, less than one step, a norm floor that is negative or not finite, coefficients without a step, another
/// algorithm than standard or another T than float in bfloat16, and one matrix seen with two strides; InputError as
/// reserve; any other partial overlap is unchecked. T is float or double.
template <class T>
OrthogonalizeResult orthogonalize(MatrixView<const std::type_identity_t<T>> input, MatrixView<T> output,
                                  const NewtonSchulzOptions& options, NewtonSchulzWorkspace<T>& workspace);

}  // namespace matrixfsdp
