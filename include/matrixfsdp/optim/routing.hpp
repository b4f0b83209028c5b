#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <matrixfsdp/optim/adamw.hpp>
#include <matrixfsdp/optim/muon.hpp>
#include <matrixfsdp/optim/shampoo.hpp>
#include <matrixfsdp/optim/soap.hpp>
#include <matrixfsdp/plan/cost.hpp>

namespace matrixfsdp {

/// Which optimizer steps matrices, and the options of all that could.
struct RoutingOptions {
  /// The choice.
  MatrixOptimizer matrices = MatrixOptimizer::muon;
  /// Of matrices, where that is the choice.
  MuonOptions muon;
  /// Where that is the choice.
  ShampooOptions shampoo;
  /// Where that is the choice.
  SoapOptions soap;
  /// Of tails, and of matrices where that is the choice.
  AdamWOptions adamw;
  /// Matrices that are stepped at once (see Optimizer), at least 1: cores of the rank.
  int workers = 1;
};

/// What `options` cost, for planner and predictions: those of the optimizer that is chosen.
OptimizerCost cost_of(const RoutingOptions& options);

/// Base learning rate of matrices.
double matrix_learning_rate(const RoutingOptions& options);

/// Matrices (by kind, hence by global shape) to the matrix optimizer, the rest to AdamW; also matrices with an extent
/// that is too large for Shampoo or SOAP (see optimizer_of). Either class may be empty. A checkpoint sees one optimizer
/// whose state is that of both. `failed` names matrices first. Throws as the constructors of the matrix optimizer and
/// of AdamW do, whatever the views: the options of both are checked.
std::unique_ptr<Optimizer> make_optimizer(std::vector<ParameterView> views, const RoutingOptions& options);

/// Makes the optimizer of matrices from their views.
using MatrixOptimizerFactory =
    std::function<std::unique_ptr<Optimizer>(std::vector<ParameterView> views, const RoutingOptions& options)>;

/// The same with another optimizer in that one's place, for strategies that communicate between its phases: its views
/// may be parts of matrices.
std::unique_ptr<Optimizer> make_optimizer(std::vector<ParameterView> views, const RoutingOptions& options,
                                          const MatrixOptimizerFactory& make_matrix_optimizer);

}  // namespace matrixfsdp
