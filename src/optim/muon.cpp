#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/muon.hpp>
#include <matrixfsdp/optim/muon_phases.hpp>

#include "optim/matrices.hpp"

namespace matrixfsdp {
namespace {

constexpr const char* self = "Muon";
constexpr std::int64_t flops_per_element = 6;  // as step_flops counts the element-wise part

void check(const MuonOptions& options) {
  detail::require_at_least(0.0, options.learning_rate, self, "learning rate");
  detail::require_at_least(0.0, options.weight_decay, self, "weight decay");
  detail::require_below_one(options.momentum, self, "momentum");
  detail::require_at_least(1.0, options.newton_schulz.steps, self, "Newton-Schulz steps");
  detail::require_at_least(0.0, options.newton_schulz.norm_floor, self, "norm floor");
  if (options.newton_schulz.coefficients != nullptr && options.newton_schulz.coefficients->steps.empty()) {
    throw InputError(fmt::format("Muon: coefficients \"{}\" have no step", options.newton_schulz.coefficients->name));
  }
}

}  // namespace

struct Muon::Implementation {
  detail::Matrices matrices;
  MuonOptions options;
  detail::State momentum;
  /// Scratch of one worker.
  struct Scratch {
    Tensor<float> direction;  // of one whole parameter: nothing of it is applied before all its parts have succeeded
    NewtonSchulzWorkspace<float> workspace;
  };
  std::vector<Scratch> scratch;

  void make_scratch(int worker);
  bool orthogonalize_parts(std::size_t index, NewtonSchulzWorkspace<float>& workspace, const TensorView<float>& u,
                           const StepInput& input, StepResult& result) const;
  bool step(std::size_t index, int worker, const StepInput& input, StepResult& result);
};

void Muon::Implementation::make_scratch(int worker) {
  Scratch& one = scratch.emplace_back();
  one.workspace.workers = matrices.product_workers();
  std::int64_t largest = 0;
  for (const std::size_t i : matrices.of_worker(worker)) {
    largest = std::max(largest, matrices.views()[i].elements.size());
    for (const MatrixPart& part : matrices.parts(i))
      one.workspace.reserve(part.rows, part.cols, options.newton_schulz);
  }
  one.direction = make_tensor<float>("matrixfsdp::optim::direction", largest);
}

bool Muon::Implementation::orthogonalize_parts(std::size_t index, NewtonSchulzWorkspace<float>& workspace,
                                               const TensorView<float>& u, const StepInput& input,
                                               StepResult& result) const {
  NewtonSchulzOptions watched = options.newton_schulz;
  watched.measure_residual = watched.measure_residual || input.observer != nullptr;
  for (const MatrixPart& part : matrices.parts(index)) {
    const MatrixView<float> matrix = part_view(u, part);
    const OrthogonalizeResult done = orthogonalize<float>(matrix, matrix, watched, workspace);
    result.flops += done.flops;
    if (done.status == OrthogonalizeStatus::non_finite || done.status == OrthogonalizeStatus::diverged) return false;
    matrices.show(input, index, part, matrix, done.residual);
  }
  return true;
}

bool Muon::Implementation::step(std::size_t index, int worker, const StepInput& input, StepResult& result) {
  Scratch& own = scratch[static_cast<std::size_t>(worker)];
  const ParameterView& view = matrices.views()[index];
  const MuonMomentum factors(options.momentum, input.gradient_scale, options.nesterov);
  const TensorView<float> u = slice(own.direction, 0, view.elements.size());
  muon_direction(factors, view.gradient, momentum[index], u);
  if (!orthogonalize_parts(index, own.workspace, u, input, result)) return false;
  const detail::Rates rates(view, input, options.learning_rate, options.weight_decay);
  muon_momentum(factors, view.gradient, momentum[index]);
  for (const MatrixPart& part : matrices.parts(index)) {
    const double scale = update_scale(options.scale, part.rows, part.cols);
    muon_apply(MuonApply(rates.learning_rate, rates.weight_decay, scale), part_view(u, part),
               part_view(view.weight, part));
  }
  result.flops += flops_per_element * view.elements.size();
  return true;
}

Muon::Muon(std::vector<ParameterView> views, const MuonOptions& options, int workers)
    : implementation_(std::make_unique<Implementation>()) {
  check(options);
  Implementation& made = *implementation_;
  const NewtonSchulzOptions& newton_schulz = options.newton_schulz;
  made.matrices = detail::Matrices(
      std::move(views), self,
      {newton_schulz.algorithm, newton_schulz.steps, MatrixOptimizer::muon, {}, newton_schulz.dtype, workers});
  made.options = options;
  for (int worker = 0; worker < made.matrices.workers(); ++worker)
    made.make_scratch(worker);
  made.momentum = detail::State("matrixfsdp::optim::momentum", made.matrices.views());
}

Muon::~Muon() = default;

StepResult Muon::step(const StepInput& input) {
  return implementation_->matrices.step_each(input, "matrixfsdp::optim::muon",
                                             [&](std::size_t index, int worker, StepResult& result) {
                                               return implementation_->step(index, worker, input, result);
                                             });
}

const std::vector<ParameterView>& Muon::views() const {
  return implementation_->matrices.views();
}

std::vector<StateView> Muon::state() {
  std::vector<StateView> state;
  for (std::size_t i = 0; i < views().size(); ++i) {
    state.push_back({i, "momentum", implementation_->momentum[i], "muon"});
  }
  return state;
}

std::int64_t Muon::state_bytes() const {
  return implementation_->momentum.bytes();
}

std::int64_t Muon::workspace_bytes() const {
  std::int64_t bytes = 0;
  for (const Implementation::Scratch& one : implementation_->scratch)
    bytes += static_cast<std::int64_t>(one.direction.extent(0) * sizeof(float)) + one.workspace.bytes();
  return bytes;
}

MuonOptions torch_muon_options() {
  MuonOptions options;
  options.learning_rate = 1e-3;
  options.weight_decay = 0.1;
  options.newton_schulz.algorithm = NewtonSchulzAlgorithm::standard;
  options.newton_schulz.coefficients = &quintic_sequence("keller-jordan");
  options.newton_schulz.steps = 5;
  options.newton_schulz.norm_floor = 1e-7;
  return options;
}

}  // namespace matrixfsdp
