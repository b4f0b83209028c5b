#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>

#include "optim/matrices.hpp"
#include "optim/views.hpp"

/// What Shampoo and SOAP keep alike: Kronecker factors of blocks, and one more square matrix beside each.
namespace matrixfsdp::detail {

/// A block of a parameter, and where its square matrices begin in the parameter's left and right ones.
struct Block {
  MatrixPart part;
  std::int64_t left = 0;   ///< of m x m
  std::int64_t right = 0;  ///< of n x n
};

/// Of each view. Throws as preconditioned_blocks.
std::vector<std::vector<Block>> blocks_of(const std::vector<ParameterView>& views, MatrixOptimizer optimizer,
                                          const PreconditionerCost& cost);

/// A square matrix on one side of every block.
class Squares {
 public:
  enum class Side { left, right };

  Squares() = default;
  Squares(const char* label, Side side, const std::vector<std::vector<Block>>& blocks);

  [[nodiscard]] MatrixView<float> at(std::size_t index, const Block& block) const;
  /// Of all blocks of view `index`.
  void fill_identity(std::size_t index, const std::vector<Block>& blocks) const;
  void fill_zero(std::size_t index) const;
  /// For a checkpoint: m x m where the view has one block.
  [[nodiscard]] StateView view(std::size_t index, const std::vector<Block>& blocks, const char* name,
                               const char* optimizer) const;
  [[nodiscard]] std::int64_t bytes() const { return state_.bytes(); }

 private:
  Side side_ = Side::left;
  State state_;
};

/// A factor, and what is made of it: a root, or a basis.
struct FactorSide {
  FactorSide() = default;
  FactorSide(Squares::Side side, const std::vector<std::vector<Block>>& blocks);

  Squares factors;
  Squares made;
  [[nodiscard]] std::int64_t bytes() const { return factors.bytes() + made.bytes(); }
};

/// `count` numbers for each view with elements, which are not its elements'.
State make_counters(const std::vector<ParameterView>& views, std::int64_t count);
StateView counters_view(std::size_t index, const TensorView<float>& counters, const char* optimizer);

/// FLOPs of the products on an m x n block.
inline std::int64_t both_factor_flops(const MatrixPart& part) {
  return part.rows * (part.rows + 1) * part.cols + part.cols * (part.cols + 1) * part.rows;
}
inline std::int64_t both_sides_flops(const MatrixPart& part) {
  return 2 * part.rows * part.cols * (part.rows + part.cols);
}

/// left <- decay left + weight G G^T, right <- decay right + weight G^T G.
void add_to_factors(double decay, double weight, const MatrixView<const float>& gradient, const MatrixView<float>& left,
                    const MatrixView<float>& right);

/// Throws InputError unless `value` is finite, and greater than 0 in float32.
void require_positive(double value, std::string_view optimizer, std::string_view option);

}  // namespace matrixfsdp::detail
