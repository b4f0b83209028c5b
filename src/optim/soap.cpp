#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/optim/soap.hpp>

#include "optim/eigenvectors.hpp"
#include "optim/factored.hpp"
#include "optim/factored_kernels.hpp"
#include "optim/preconditioner_workspace.hpp"

namespace matrixfsdp {
namespace {

using detail::Turn;

using linalg::Op;

constexpr const char* self = "SOAP";
constexpr const char* kind = "soap";
constexpr double tiny_shift = 1e-30;            // the reference adds it to the first factors' diagonal
constexpr std::int64_t flops_per_element = 14;  // by convention, as preconditioner_flops counts it

void check(const SoapOptions& options) {
  detail::require_at_least(0.0, options.learning_rate, self, "learning rate");
  detail::require_at_least(0.0, options.weight_decay, self, "weight decay");
  detail::require_below_one(options.beta1, self, "beta1");
  detail::require_below_one(options.beta2, self, "beta2");
  if (options.factor_beta != -1.0) detail::require_below_one(options.factor_beta, self, "factor beta");
  detail::require_positive(options.epsilon, self, "epsilon");
  validate(options.preconditioner);
}

/// Step size and factor of the weight, of step t.
struct SoapApply {
  SoapApply(const SoapOptions& options, const detail::Rates& rates, std::int64_t step) {
    const auto t = static_cast<double>(step);
    const double correction = options.bias_correction
                                  ? std::sqrt(1.0 - std::pow(options.beta2, t)) / (1.0 - std::pow(options.beta1, t))
                                  : 1.0;
    step_size = static_cast<float>(rates.learning_rate * correction);
    decay = static_cast<float>(1.0 - rates.learning_rate * rates.weight_decay);
  }

  float step_size = 0;
  float decay = 1;
};

void gemm(Op op_a, const MatrixView<const float>& a, Op op_b, const MatrixView<const float>& b,
          const MatrixView<float>& c) {
  linalg::gemm<float>(op_a, op_b, 1.0F, a, b, 0.0F, c);
}

}  // namespace

struct Soap::Implementation {
  detail::Matrices matrices;
  SoapOptions options;
  std::vector<std::vector<detail::Block>> blocks;
  detail::State counters;
  detail::State first_moment;
  detail::State second_moment;
  detail::FactorSide left;
  detail::FactorSide right;
  std::vector<detail::PreconditionerWorkspace> workspaces;  ///< of each worker

  [[nodiscard]] double factor_beta() const { return options.factor_beta == -1.0 ? options.beta2 : options.factor_beta; }
  void add_gradient(const Turn& turn, const detail::Block& block, const MatrixView<float>& gradient,
                    StepResult& result) const;
  MatrixView<float> scaled_gradient(const Turn& turn, const detail::Block& block, double scale) const;
  bool first_basis(const Turn& turn, const detail::FactorSide& side, const detail::Block& block,
                   StepResult& result) const;
  bool initialize(const Turn& turn, double scale, StepResult& result) const;
  MatrixView<float> direction(const Turn& turn, const detail::Block& block, const MatrixView<float>& gradient) const;
  MatrixView<float> next_basis(const Turn& turn, const detail::FactorSide& side, const detail::Block& block) const;
  void refresh(const Turn& turn, const detail::Block& block, StepResult& result) const;
  bool step(const Turn& turn, const StepInput& input, StepResult& result) const;
};

MatrixView<float> Soap::Implementation::scaled_gradient(const Turn& turn, const detail::Block& block,
                                                        double scale) const {
  const MatrixView<float> gradient = turn.workspace.matrix(0, block.part.rows, block.part.cols);
  detail::scale_into(static_cast<float>(scale), part_view(matrices.views()[turn.index].gradient, block.part), gradient);
  return gradient;
}

void Soap::Implementation::add_gradient(const Turn& turn, const detail::Block& block, const MatrixView<float>& gradient,
                                        StepResult& result) const {
  detail::add_to_factors(factor_beta(), 1.0 - factor_beta(), gradient, left.factors.at(turn.index, block),
                         right.factors.at(turn.index, block));
  result.flops += detail::both_factor_flops(block.part);
}

bool Soap::Implementation::first_basis(const Turn& turn, const detail::FactorSide& side, const detail::Block& block,
                                       StepResult& result) const {
  const MatrixView<float> factor = side.factors.at(turn.index, block);
  const std::int64_t k = factor.rows;
  const MatrixView<float> ascending = turn.workspace.square(0, k);
  const linalg::EigenResult done = detail::eigenvectors_with_retry(
      factor, 1.0, tiny_shift, ascending, turn.workspace.values(k), turn.workspace.decompositions());
  result.flops += 9 * k * k * k;
  if (!done.ok()) {
    log_line(fmt::format("SOAP, first call of '{}': {}", matrices.views()[turn.index].spec->name, done.message()));
    return false;
  }
  const TensorView<int> order = turn.workspace.order(k);
  for (std::int64_t i = 0; i < k; ++i)
    order.data()[i] = static_cast<int>(k - 1 - i);
  detail::gather_rows(order, ascending, side.made.at(turn.index, block));
  return true;
}

/// The first call: factors and bases, no update.
bool Soap::Implementation::initialize(const Turn& turn, double scale, StepResult& result) const {
  bool good = true;
  for (const detail::Block& block : blocks[turn.index]) {
    add_gradient(turn, block, scaled_gradient(turn, block, scale), result);
    good = good && first_basis(turn, left, block, result) && first_basis(turn, right, block, result);
  }
  if (good) return true;
  for (const detail::FactorSide* side : {&left, &right}) {
    side->factors.fill_zero(turn.index);
    side->made.fill_zero(turn.index);
  }
  return false;
}

/// U^T (m / (sqrt(v) + eps)) V with new moments, in the turn.workspace.
MatrixView<float> Soap::Implementation::direction(const Turn& turn, const detail::Block& block,
                                                  const MatrixView<float>& gradient) const {
  const MatrixView<float> u = left.made.at(turn.index, block);
  const MatrixView<float> v = right.made.at(turn.index, block);
  const MatrixView<float> product = turn.workspace.matrix(1, gradient.rows, gradient.cols);
  const MatrixView<float> rotated = turn.workspace.matrix(2, gradient.rows, gradient.cols);
  const MatrixView<float> first = part_view(first_moment[turn.index], block.part);
  const MatrixView<float> second = part_view(second_moment[turn.index], block.part);
  gemm(Op::none, u, Op::none, gradient, product);
  gemm(Op::none, product, Op::transpose, v, rotated);
  detail::average_into(static_cast<float>(options.beta1), static_cast<float>(1.0 - options.beta1), rotated, first);
  detail::average_squares_into(static_cast<float>(options.beta2), static_cast<float>(1.0 - options.beta2), rotated,
                               second);
  detail::divide_by_root(1.0F, static_cast<float>(options.epsilon), first, second, rotated);
  gemm(Op::transpose, u, Op::none, rotated, product);
  gemm(Op::none, product, Op::none, v, rotated);
  return rotated;
}

/// The new basis, in the workspace, and in turn.workspace.order() how the old one's rows were sorted for it.
MatrixView<float> Soap::Implementation::next_basis(const Turn& turn, const detail::FactorSide& side,
                                                   const detail::Block& block) const {
  const MatrixView<float> factor = side.factors.at(turn.index, block);
  const MatrixView<float> basis = side.made.at(turn.index, block);
  const std::int64_t k = factor.rows;
  const MatrixView<float> powered = turn.workspace.square(0, k);
  const MatrixView<float> sorted = turn.workspace.square(1, k);
  const TensorView<int> order = turn.workspace.order(k);
  const float* const estimates = turn.workspace.values(k).data();
  gemm(Op::none, basis, Op::none, factor, powered);
  detail::row_products(basis, powered, turn.workspace.values(k));
  for (int i = 0; i < static_cast<int>(k); ++i)
    order.data()[i] = i;
  std::sort(order.data(), order.data() + k,
            [estimates](int a, int b) { return estimates[a] != estimates[b] ? estimates[a] > estimates[b] : a < b; });
  detail::gather_rows(order, powered, sorted);
  linalg::orthonormal_rows<float>(sorted, turn.workspace.decompositions());
  return sorted;
}

void Soap::Implementation::refresh(const Turn& turn, const detail::Block& block, StepResult& result) const {
  const std::int64_t m = block.part.rows;
  const std::int64_t n = block.part.cols;
  const MatrixView<float> first = part_view(first_moment[turn.index], block.part);
  const MatrixView<float> second = part_view(second_moment[turn.index], block.part);
  const MatrixView<float> other = turn.workspace.matrix(1, m, n);

  const MatrixView<float> u = next_basis(turn, left, block);
  detail::gather_rows(turn.workspace.order(m), second, other);
  detail::scale_into(1.0F, other, second);
  gemm(Op::transpose, left.made.at(turn.index, block), Op::none, first, other);
  gemm(Op::none, u, Op::none, other, first);
  detail::scale_into(1.0F, u, left.made.at(turn.index, block));

  const MatrixView<float> v = next_basis(turn, right, block);
  detail::gather_cols(turn.workspace.order(n), second, other);
  detail::scale_into(1.0F, other, second);
  gemm(Op::none, first, Op::none, right.made.at(turn.index, block), other);
  gemm(Op::none, other, Op::transpose, v, first);
  detail::scale_into(1.0F, v, right.made.at(turn.index, block));

  for (const std::int64_t k : {m, n})
    result.flops += 2 * k * k * k + 2 * k * k + 8 * k * k * k / 3;
  result.flops += 2 * detail::both_sides_flops(block.part);
}

bool Soap::Implementation::step(const Turn& turn, const StepInput& input, StepResult& result) const {
  const ParameterView& view = matrices.views()[turn.index];
  if (!turn.workspace.squares_fit(view.gradient, input.gradient_scale, 0.0)) return false;
  float& calls = counters[turn.index].data()[0];
  const auto t = static_cast<std::int64_t>(calls);
  if (t == 0) {
    if (!initialize(turn, input.gradient_scale, result)) return false;
    calls = 1.0F;
    return true;
  }
  const detail::Rates rates(view, input, options.learning_rate, options.weight_decay);
  const SoapApply apply(options, rates, t);
  for (const detail::Block& block : blocks[turn.index]) {
    const MatrixView<float> gradient = scaled_gradient(turn, block, input.gradient_scale);
    const MatrixView<float> update = direction(turn, block, gradient);
    matrices.show(input, turn.index, block.part, update);
    detail::subtract_then_decay(apply.step_size, apply.decay, update, part_view(view.weight, block.part));
    result.flops += 2 * detail::both_sides_flops(block.part) + flops_per_element * block.part.rows * block.part.cols;
    add_gradient(turn, block, gradient, result);
    if (t % options.preconditioner.frequency == 0) refresh(turn, block, result);
  }
  calls = static_cast<float>(t + 1);
  return true;
}

Soap::Soap(std::vector<ParameterView> views, const SoapOptions& options, int workers)
    : implementation_(std::make_unique<Implementation>()) {
  check(options);
  Implementation& made = *implementation_;
  const OptimizerCost cost{{}, 1, MatrixOptimizer::soap, options.preconditioner, DType::float32, workers};
  made.matrices = detail::Matrices(std::move(views), self, cost);
  made.options = options;
  const std::vector<ParameterView>& all = made.matrices.views();
  made.blocks = detail::blocks_of(all, MatrixOptimizer::soap, options.preconditioner);
  made.counters = detail::make_counters(all, soap_counters);
  made.first_moment = detail::State("matrixfsdp::optim::first_moment", all);
  made.second_moment = detail::State("matrixfsdp::optim::second_moment", all);
  made.left = detail::FactorSide(detail::Squares::Side::left, made.blocks);
  made.right = detail::FactorSide(detail::Squares::Side::right, made.blocks);
  for (int worker = 0; worker < made.matrices.workers(); ++worker)
    made.workspaces.emplace_back(all, made.matrices.of_worker(worker), MatrixOptimizer::soap, options.preconditioner);
}

Soap::~Soap() = default;

StepResult Soap::step(const StepInput& input) {
  return implementation_->matrices.step_each(
      input, "matrixfsdp::optim::soap", [&](std::size_t index, int worker, StepResult& result) {
        const detail::PreconditionerWorkspace& own = implementation_->workspaces[static_cast<std::size_t>(worker)];
        return implementation_->step({index, own}, input, result);
      });
}

const std::vector<ParameterView>& Soap::views() const {
  return implementation_->matrices.views();
}

std::vector<StateView> Soap::state() {
  const Implementation& made = *implementation_;
  std::vector<StateView> state;
  for (std::size_t i = 0; i < views().size(); ++i) {
    state.push_back(detail::counters_view(i, made.counters[i], kind));
    state.push_back({i, "first_moment", made.first_moment[i], kind});
    state.push_back({i, "second_moment", made.second_moment[i], kind});
    state.push_back(made.left.factors.view(i, made.blocks[i], "left_factor", kind));
    state.push_back(made.left.made.view(i, made.blocks[i], "left_basis", kind));
    state.push_back(made.right.factors.view(i, made.blocks[i], "right_factor", kind));
    state.push_back(made.right.made.view(i, made.blocks[i], "right_basis", kind));
  }
  return state;
}

std::int64_t Soap::state_bytes() const {
  const Implementation& made = *implementation_;
  return made.counters.bytes() + made.first_moment.bytes() + made.second_moment.bytes() + made.left.bytes() +
         made.right.bytes();
}

std::int64_t Soap::workspace_bytes() const {
  return detail::bytes_of(implementation_->workspaces);
}

}  // namespace matrixfsdp
