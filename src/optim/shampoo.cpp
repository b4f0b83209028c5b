#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/optim/muon_phases.hpp>
#include <matrixfsdp/optim/shampoo.hpp>

#include "optim/eigenvectors.hpp"
#include "optim/factored.hpp"
#include "optim/factored_kernels.hpp"
#include "optim/preconditioner_workspace.hpp"

namespace matrixfsdp {
namespace {

using detail::Turn;

constexpr const char* self = "Shampoo";
constexpr const char* kind = "shampoo";
constexpr double tiny_norm = 1e-16;  // the reference adds it to the norm that it divides by
// By convention, as preconditioner_flops counts them.
constexpr std::int64_t flops_per_element = 8;
constexpr std::int64_t grafting_flops_per_element = 8;

double or_default(double value, double otherwise) {
  return value == -1.0 ? otherwise : value;
}

void check(const ShampooOptions& options) {
  detail::require_at_least(0.0, options.learning_rate, self, "learning rate");
  detail::require_at_least(0.0, options.weight_decay, self, "weight decay");
  detail::require_below_one(options.beta1, self, "beta1");
  detail::require_below_one(or_default(options.beta3, options.beta1), self, "beta3");
  if (options.beta2 != 1.0) detail::require_below_one(options.beta2, self, "beta2");
  detail::require_below_one(options.grafting_beta2, self, "grafting beta2");
  detail::require_positive(options.epsilon, self, "epsilon");
  detail::require_positive(options.grafting_epsilon, self, "grafting epsilon");
  validate(options.preconditioner);
  const std::int64_t frequency = options.preconditioner.frequency;
  if (options.start_step != -1 && options.start_step < frequency) {
    throw InputError(
        fmt::format("Shampoo: start step {}, expected -1 or at least the frequency {}", options.start_step, frequency));
  }
}

/// Steps and failed refreshes in a row, as they are kept: whole numbers up to 2^24.
struct Counters {
  explicit Counters(const TensorView<float>& stored)
      : values(stored.data()), step(static_cast<std::int64_t>(stored.data()[0]) + 1) {}

  void store(bool refreshed, bool failed) const {
    values[0] = static_cast<float>(step);
    if (refreshed) values[1] = failed ? values[1] + 1.0F : 0.0F;
  }
  [[nodiscard]] bool tolerable() const { return values[1] <= static_cast<float>(tolerated_root_failures); }

  float* values;
  std::int64_t step;  // this one's number
};

}  // namespace

struct Shampoo::Implementation {
  detail::Matrices matrices;
  ShampooOptions options;
  std::int64_t start = 0;
  std::vector<std::vector<detail::Block>> blocks;
  detail::State counters;
  detail::State momentum;
  detail::State second_moment;  // Adam grafting
  detail::FactorSide left;
  detail::FactorSide right;
  std::vector<detail::PreconditionerWorkspace> workspaces;  ///< of each worker

  [[nodiscard]] bool grafts_adam() const { return options.preconditioner.grafting == Grafting::adam; }
  [[nodiscard]] bool refreshes(std::int64_t step) const {
    return step == start || (step > start && step % options.preconditioner.frequency == 0);
  }
  [[nodiscard]] double largest_sum(const Turn& turn) const;
  void add_gradient(const Turn& turn, double scale, StepResult& result) const;
  bool make_root(const Turn& turn, const MatrixView<float>& factor, const MatrixView<float>& root,
                 std::int64_t step) const;
  bool refresh(const Turn& turn, std::int64_t step, StepResult& result) const;
  void average(const Turn& turn, const MatrixPart& part, std::int64_t step, const MatrixView<float>& gradient) const;
  void graft(const Turn& turn, const MatrixPart& part, std::int64_t step, const MatrixView<float>& averaged,
             const MatrixView<float>& grafted) const;
  MatrixView<float> direction(const Turn& turn, const detail::Block& block, std::int64_t step, double scale,
                              StepResult& result) const;
  bool step(const Turn& turn, const StepInput& input, StepResult& result) const;
};

/// What a factor that is a sum has already.
double Shampoo::Implementation::largest_sum(const Turn& turn) const {
  if (options.beta2 < 1.0) return 0.0;
  double most = 0.0;
  for (const detail::Block& block : blocks[turn.index])
    most = std::max(most, detail::trace(left.factors.at(turn.index, block)));
  return most;
}

void Shampoo::Implementation::add_gradient(const Turn& turn, double scale, StepResult& result) const {
  const ParameterView& view = matrices.views()[turn.index];
  const double weight = options.beta2 < 1.0 ? 1.0 - options.beta2 : 1.0;
  for (const detail::Block& block : blocks[turn.index]) {
    const MatrixView<float> gradient = turn.workspace.matrix(0, block.part.rows, block.part.cols);
    detail::scale_into(static_cast<float>(scale), part_view(view.gradient, block.part), gradient);
    detail::add_to_factors(options.beta2, weight, gradient, left.factors.at(turn.index, block),
                           right.factors.at(turn.index, block));
    result.flops += detail::both_factor_flops(block.part);
    if (!grafts_adam()) continue;
    detail::average_squares_into(static_cast<float>(options.grafting_beta2),
                                 static_cast<float>(1.0 - options.grafting_beta2), gradient,
                                 part_view(second_moment[turn.index], block.part));
  }
}

bool Shampoo::Implementation::make_root(const Turn& turn, const MatrixView<float>& factor,
                                        const MatrixView<float>& root, std::int64_t step) const {
  const bool corrects = options.bias_correction && options.beta2 < 1.0;
  const double correction = corrects ? 1.0 / (1.0 - std::pow(options.beta2, static_cast<double>(step))) : 1.0;
  const linalg::EigenResult result =
      detail::inverse_fourth_root(factor, correction, options.epsilon, root, turn.workspace.square(0, factor.rows),
                                  turn.workspace.values(factor.rows), turn.workspace.decompositions());
  if (!result.ok())
    log_line(fmt::format("Shampoo, step {} of '{}': {}; the last root stays", step,
                         matrices.views()[turn.index].spec->name, result.message()));
  return result.ok();
}

/// Whether all roots were made.
bool Shampoo::Implementation::refresh(const Turn& turn, std::int64_t step, StepResult& result) const {
  bool good = true;
  for (const detail::Block& block : blocks[turn.index]) {
    for (const detail::FactorSide* side : {&left, &right}) {
      const MatrixView<float> factor = side->factors.at(turn.index, block);
      if (!make_root(turn, factor, side->made.at(turn.index, block), step)) good = false;
      const std::int64_t k = factor.rows;
      result.flops += 9 * k * k * k + k * (k + 1) * k;
    }
  }
  return good;
}

/// The scaled gradient becomes the averaged one, and enters the average.
void Shampoo::Implementation::average(const Turn& turn, const MatrixPart& part, std::int64_t step,
                                      const MatrixView<float>& gradient) const {
  const double beta1 = options.beta1;
  const double beta3 = beta1 == 0.0 ? 0.0 : or_default(options.beta3, beta1);
  const bool corrects = options.bias_correction && beta1 > 0.0;
  const double correction = corrects ? 1.0 / (1.0 - beta3 * std::pow(beta1, static_cast<double>(step - 1))) : 1.0;
  // The average needs the gradient as it is, and what is multiplied the average as it was.
  const MatrixView<float> plain = turn.workspace.matrix(1, part.rows, part.cols);
  const MatrixView<float> stored = part_view(momentum[turn.index], part);
  detail::scale_into(1.0F, gradient, plain);
  detail::blend(static_cast<float>(beta3), static_cast<float>(1.0 - beta3), static_cast<float>(correction), stored,
                gradient);
  detail::average_into(static_cast<float>(beta1), static_cast<float>(1.0 - beta1), plain, stored);
}

/// `grafted` <- P_graft of the averaged gradient; they may be the same.
void Shampoo::Implementation::graft(const Turn& turn, const MatrixPart& part, std::int64_t step,
                                    const MatrixView<float>& averaged, const MatrixView<float>& grafted) const {
  const double correction =
      options.bias_correction ? 1.0 / (1.0 - std::pow(options.grafting_beta2, static_cast<double>(step))) : 1.0;
  if (grafts_adam()) {
    detail::divide_by_root(static_cast<float>(correction), static_cast<float>(options.grafting_epsilon), averaged,
                           part_view(second_moment[turn.index], part), grafted);
  } else {
    detail::scale_into(1.0F, averaged, grafted);
  }
}

/// P of a block, in the turn.workspace.
MatrixView<float> Shampoo::Implementation::direction(const Turn& turn, const detail::Block& block, std::int64_t step,
                                                     double scale, StepResult& result) const {
  using linalg::Op;
  const MatrixPart& part = block.part;
  const bool grafts = options.preconditioner.grafting != Grafting::none;
  const MatrixView<float> averaged = turn.workspace.matrix(0, part.rows, part.cols);
  const MatrixView<float> other = turn.workspace.matrix(1, part.rows, part.cols);
  detail::scale_into(static_cast<float>(scale), part_view(matrices.views()[turn.index].gradient, part), averaged);
  average(turn, part, step, averaged);
  result.flops += (flops_per_element + (grafts_adam() ? grafting_flops_per_element : 0)) * part.rows * part.cols;
  if (step < start) {
    if (grafts) graft(turn, part, step, averaged, averaged);
    return averaged;
  }
  double wanted = 0.0;
  if (grafts) {
    graft(turn, part, step, averaged, other);
    wanted = std::sqrt(turn.workspace.square_sum(other));
  }
  linalg::gemm<float>(Op::none, Op::none, 1.0F, left.made.at(turn.index, block), averaged, 0.0F, other);
  linalg::gemm<float>(Op::none, Op::none, 1.0F, other, right.made.at(turn.index, block), 0.0F, averaged);
  result.flops += detail::both_sides_flops(part);
  if (grafts) {
    const double own = std::sqrt(turn.workspace.square_sum(averaged));
    detail::scale_into(static_cast<float>(wanted / (own + tiny_norm)), averaged, averaged);
  }
  return averaged;
}

bool Shampoo::Implementation::step(const Turn& turn, const StepInput& input, StepResult& result) const {
  const ParameterView& view = matrices.views()[turn.index];
  if (!turn.workspace.squares_fit(view.gradient, input.gradient_scale, largest_sum(turn))) return false;
  const Counters counter(counters[turn.index]);
  add_gradient(turn, input.gradient_scale, result);
  const bool due = refreshes(counter.step);
  counter.store(due, due && !refresh(turn, counter.step, result));
  if (!counter.tolerable()) return false;
  const detail::Rates rates(view, input, options.learning_rate, options.weight_decay);
  for (const detail::Block& block : blocks[turn.index]) {
    const MatrixView<float> update = direction(turn, block, counter.step, input.gradient_scale, result);
    matrices.show(input, turn.index, block.part, update);
    muon_apply(MuonApply(rates.learning_rate, rates.weight_decay, 1.0), update, part_view(view.weight, block.part));
  }
  return true;
}

Shampoo::Shampoo(std::vector<ParameterView> views, const ShampooOptions& options, int workers)
    : implementation_(std::make_unique<Implementation>()) {
  check(options);
  Implementation& made = *implementation_;
  const OptimizerCost cost{{}, 1, MatrixOptimizer::shampoo, options.preconditioner, DType::float32, workers};
  made.matrices = detail::Matrices(std::move(views), self, cost);
  made.options = options;
  made.start = options.start_step == -1 ? options.preconditioner.frequency : options.start_step;
  const std::vector<ParameterView>& all = made.matrices.views();
  made.blocks = detail::blocks_of(all, MatrixOptimizer::shampoo, options.preconditioner);
  made.counters = detail::make_counters(all, shampoo_counters);
  made.momentum = detail::State("matrixfsdp::optim::momentum", all);
  if (made.grafts_adam()) made.second_moment = detail::State("matrixfsdp::optim::second_moment", all);
  made.left = detail::FactorSide(detail::Squares::Side::left, made.blocks);
  made.right = detail::FactorSide(detail::Squares::Side::right, made.blocks);
  for (std::size_t i = 0; i < all.size(); ++i) {
    made.left.made.fill_identity(i, made.blocks[i]);
    made.right.made.fill_identity(i, made.blocks[i]);
  }
  for (int worker = 0; worker < made.matrices.workers(); ++worker)
    made.workspaces.emplace_back(all, made.matrices.of_worker(worker), MatrixOptimizer::shampoo,
                                 options.preconditioner);
}

Shampoo::~Shampoo() = default;

StepResult Shampoo::step(const StepInput& input) {
  return implementation_->matrices.step_each(
      input, "matrixfsdp::optim::shampoo", [&](std::size_t index, int worker, StepResult& result) {
        const detail::PreconditionerWorkspace& own = implementation_->workspaces[static_cast<std::size_t>(worker)];
        return implementation_->step({index, own}, input, result);
      });
}

const std::vector<ParameterView>& Shampoo::views() const {
  return implementation_->matrices.views();
}

std::vector<StateView> Shampoo::state() {
  const Implementation& made = *implementation_;
  std::vector<StateView> state;
  for (std::size_t i = 0; i < views().size(); ++i) {
    state.push_back(detail::counters_view(i, made.counters[i], kind));
    state.push_back({i, "momentum", made.momentum[i], kind});
    if (made.grafts_adam()) state.push_back({i, "second_moment", made.second_moment[i], kind});
    state.push_back(made.left.factors.view(i, made.blocks[i], "left_factor", kind));
    state.push_back(made.left.made.view(i, made.blocks[i], "left_root", kind));
    state.push_back(made.right.factors.view(i, made.blocks[i], "right_factor", kind));
    state.push_back(made.right.made.view(i, made.blocks[i], "right_root", kind));
  }
  return state;
}

std::int64_t Shampoo::state_bytes() const {
  const Implementation& made = *implementation_;
  return made.counters.bytes() + made.momentum.bytes() + made.second_moment.bytes() + made.left.bytes() +
         made.right.bytes();
}

std::int64_t Shampoo::workspace_bytes() const {
  return detail::bytes_of(implementation_->workspaces);
}

}  // namespace matrixfsdp
