#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <matrixfsdp/optim/adamw.hpp>
#include <matrixfsdp/optim/muon.hpp>

namespace matrixfsdp {

/// Which optimizer steps matrices.
enum class MatrixOptimizer {
  muon,   ///< whole matrices: Muon
  adamw,  ///< element by element, as tails
};

/// Which optimizer steps matrices, and the options of all that could.
struct RoutingOptions {
  /// The choice.
  MatrixOptimizer matrices = MatrixOptimizer::muon;
  /// Of matrices, where that is the choice.
  MuonOptions muon;
  /// Of tails, and of matrices where that is the choice.
  AdamWOptions adamw;
};

/// Matrices (by kind, hence by global shape) to the matrix optimizer, the rest to AdamW. Either class may be empty. A
/// checkpoint sees one optimizer whose state is that of both. `failed` names matrices first. Throws as the constructors
/// of Muon and AdamW do, whatever the views: the options of both are checked.
std::unique_ptr<Optimizer> make_optimizer(std::vector<ParameterView> views, const RoutingOptions& options);

/// Makes the optimizer of matrices from their views.
using MatrixOptimizerFactory =
    std::function<std::unique_ptr<Optimizer>(std::vector<ParameterView> views, const MuonOptions& options)>;

/// The same with another optimizer in Muon's place, for strategies that communicate between its phases: its views may
/// be parts of matrices.
std::unique_ptr<Optimizer> make_optimizer(std::vector<ParameterView> views, const RoutingOptions& options,
                                          const MatrixOptimizerFactory& make_matrix_optimizer);

}  // namespace matrixfsdp
