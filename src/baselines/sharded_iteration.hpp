#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/comm/redistribute.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "baselines/row_tables.hpp"

namespace matrixfsdp::baselines {

/// Newton-Schulz on a matrix X in row shards X_r (X normalised as orthogonalize does), S steps p(x) = a x + b x^3 + c
/// x^5:
///   rows <= cols   each step gathers X:  A = X_r X^T,  Y = A X,  Q = b A + c Y X^T,  X_r <- a X_r + Q X
///                  (Y X^T = A (X X^T), so that A needs no gather of its own)
///   rows > cols    each step sums G = X^T X over ranks, chunk by chunk in rank order:
///                  X_r <- a X_r + X_r (b G + c G^2), or Y = X_r G, X_r <- a X_r + b Y + c Y G (see squares_gram)
/// Products of blocks of rows round otherwise than those of whole matrices: equal to orthogonalize but for rounding.
class ShardedIteration {
 public:
  /// Collective.
  ShardedIteration(Communicator& communicator, const NewtonSchulzOptions& options, CollectiveAlgorithm algorithm);

  /// Makes room for a rows x cols matrix.
  void reserve(std::int64_t rows, std::int64_t cols);
  [[nodiscard]] std::int64_t bytes() const;
  /// Buffers that messages are sent from and arrive in.
  [[nodiscard]] std::vector<Tensor<float>> travelling() const { return {gathered_, gram_, arriving_}; }

  /// Replaces this rank's rows of a matrix with `rows` rows by those of its polar factor (zeros for zeros). Collective.
  /// False where the matrix is not finite, or what became of this rank's rows has diverged. Adds to `flops`.
  bool run(const MatrixView<float>& mine, std::int64_t rows, const std::string& name, std::int64_t& flops);

 private:
  enum class Status { go_on, zero, non_finite };

  void run_wide(const MatrixView<float>& mine, std::int64_t rows, std::int64_t& flops);
  void run_tall(const MatrixView<float>& mine, std::int64_t rows, std::int64_t& flops);
  Status normalize_wide(const MatrixView<float>& mine, std::int64_t rows);
  Status normalize_tall(const MatrixView<float>& mine);
  void gather_rows(std::int64_t rows, std::int64_t cols);
  void sum_gram(std::int64_t cols);
  [[nodiscard]] bool has_diverged(const MatrixView<float>& mine, std::int64_t rows) const;
  [[nodiscard]] std::int64_t most_rows(std::int64_t rows) const;
  [[nodiscard]] const Quintic& coefficients(int step) const;

  Communicator& communicator_;
  NewtonSchulzOptions options_;
  RowTables tables_;
  std::string name_;        ///< of the parameter, for messages
  Tensor<float> gathered_;  ///< X, where rows <= cols
  Tensor<float> factor_;    ///< A, then Q
  Tensor<float> product_;   ///< Y
  Tensor<float> gram_;      ///< G, where rows > cols
  Tensor<float> square_;    ///< b G + c G^2
  Tensor<float> arriving_;  ///< other ranks' chunks of G
  Tensor<double> sums_;     ///< of squares
};

}  // namespace matrixfsdp::baselines
