#include <algorithm>
#include <utility>

#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/workers.hpp>
#include <matrixfsdp/optim/routing.hpp>

#include "optim/views.hpp"

namespace matrixfsdp {
namespace {

/// Two optimizers that look like one: views and state in the canonical order of all parameters.
class RoutedOptimizer final : public Optimizer {
 public:
  RoutedOptimizer(std::vector<ParameterView> views, const RoutingOptions& options,
                  const MatrixOptimizerFactory& make_matrix_optimizer)
      : views_(detail::canonical(std::move(views), "optimizer")) {
    std::vector<ParameterView> matrices;
    std::vector<ParameterView> others;
    for (std::size_t i = 0; i < views_.size(); ++i) {
      const bool is_matrix = views_[i].kind == ParameterKind::matrix &&
                             optimizer_of(*views_[i].spec, cost_of(options)) != MatrixOptimizer::adamw;
      (is_matrix ? matrices : others).push_back(views_[i]);
      (is_matrix ? matrix_positions_ : other_positions_).push_back(i);
    }
    matrix_ = make_matrix_optimizer(std::move(matrices), options);
    adamw_ = std::make_unique<AdamW>(std::move(others), options.adamw);
  }

  StepResult step(const StepInput& input) override {
    StepResult result = matrix_->step(input);
    StepResult others = adamw_->step(input);
    result.flops += others.flops;
    std::move(others.failed.begin(), others.failed.end(), std::back_inserter(result.failed));
    return result;
  }

  [[nodiscard]] const std::vector<ParameterView>& views() const override { return views_; }

  std::vector<StateView> state() override {
    std::vector<StateView> all;
    const auto append = [&all](std::vector<StateView> states, const std::vector<std::size_t>& positions) {
      for (StateView& state : states) {
        state.view = positions[state.view];
        all.push_back(std::move(state));
      }
    };
    append(matrix_->state(), matrix_positions_);
    append(adamw_->state(), other_positions_);
    std::stable_sort(all.begin(), all.end(),
                     [](const StateView& left, const StateView& right) { return left.view < right.view; });
    return all;
  }

  [[nodiscard]] std::int64_t state_bytes() const override { return matrix_->state_bytes() + adamw_->state_bytes(); }
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return matrix_->workspace_bytes() + adamw_->workspace_bytes();
  }

 private:
  std::vector<ParameterView> views_;
  std::vector<std::size_t> matrix_positions_;  // in views_, of each view of matrix_
  std::vector<std::size_t> other_positions_;
  std::unique_ptr<Optimizer> matrix_;
  std::unique_ptr<AdamW> adamw_;
};

/// Of whole matrices; with AdamW for all, there are none, and Muon's options are those that are checked.
std::unique_ptr<Optimizer> make_local_optimizer(std::vector<ParameterView> views, const RoutingOptions& options) {
  switch (options.matrices) {
    case MatrixOptimizer::shampoo:
      return std::make_unique<Shampoo>(std::move(views), options.shampoo, options.workers);
    case MatrixOptimizer::soap:
      return std::make_unique<Soap>(std::move(views), options.soap, options.workers);
    default:
      return std::make_unique<Muon>(std::move(views), options.muon, options.workers);
  }
}

}  // namespace

OptimizerCost cost_of(const RoutingOptions& options) {
  const bool soap = options.matrices == MatrixOptimizer::soap;
  return {options.muon.newton_schulz.algorithm,
          options.muon.newton_schulz.steps,
          options.matrices,
          soap ? options.soap.preconditioner : options.shampoo.preconditioner,
          options.muon.newton_schulz.dtype,
          linalg::Workers::usable(options.workers),
          linalg::batches_products()};
}

double matrix_learning_rate(const RoutingOptions& options) {
  switch (options.matrices) {
    case MatrixOptimizer::muon:
      return options.muon.learning_rate;
    case MatrixOptimizer::shampoo:
      return options.shampoo.learning_rate;
    case MatrixOptimizer::soap:
      return options.soap.learning_rate;
    default:
      return options.adamw.learning_rate;
  }
}

std::unique_ptr<Optimizer> make_optimizer(std::vector<ParameterView> views, const RoutingOptions& options) {
  return make_optimizer(std::move(views), options, make_local_optimizer);
}

std::unique_ptr<Optimizer> make_optimizer(std::vector<ParameterView> views, const RoutingOptions& options,
                                          const MatrixOptimizerFactory& make_matrix_optimizer) {
  return std::make_unique<RoutedOptimizer>(std::move(views), options, make_matrix_optimizer);
}

}  // namespace matrixfsdp
