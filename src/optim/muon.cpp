#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/optim/muon.hpp>
#include <matrixfsdp/optim/muon_phases.hpp>

#include "optim/matrices.hpp"
#include "orthogonalize/batch.hpp"

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
    Tensor<float> direction;  // of whole parameters: nothing of one is applied before all its parts have succeeded
    NewtonSchulzWorkspace<float> workspace;
    std::vector<OrthogonalizeTask<float>> tasks;
  };
  std::vector<Scratch> scratch;

  void make_scratch(int worker);
  void start(std::size_t index, const MuonMomentum& factors, const TensorView<float>& u, Scratch& own) const;
  bool finish(std::size_t index, const MuonMomentum& factors, const StepInput& input,
              std::span<const OrthogonalizeTask<float>> parts, StepResult& result);
  void step(std::span<const std::size_t> indices, int worker, const StepInput& input);
};

void Muon::Implementation::make_scratch(int worker) {
  Scratch& one = scratch.emplace_back();
  one.workspace.workers = matrices.product_workers();
  std::int64_t largest = 0;
  for (const std::size_t i : matrices.of_worker(worker)) {
    largest = std::max(largest, matrices.together(i) * matrices.views()[i].elements.size());
    for (const MatrixPart& part : matrices.parts(i))
      one.workspace.reserve(part.rows, part.cols, options.newton_schulz,
                            detail::slots_of(part.rows, part.cols, options.newton_schulz));
  }
  one.direction = make_tensor<float>("matrixfsdp::optim::direction", largest);
}

/// Direction of one parameter, and a task for each of its parts.
void Muon::Implementation::start(std::size_t index, const MuonMomentum& factors, const TensorView<float>& u,
                                 Scratch& own) const {
  muon_direction(factors, matrices.views()[index].gradient, momentum[index], u);
  for (const MatrixPart& part : matrices.parts(index)) {
    const MatrixView<float> matrix = part_view(u, part);
    own.tasks.push_back({matrix, matrix, {}});
  }
}

/// From the parts of the parameter, which have been orthogonalized; false where one has no answer.
bool Muon::Implementation::finish(std::size_t index, const MuonMomentum& factors, const StepInput& input,
                                  std::span<const OrthogonalizeTask<float>> parts, StepResult& result) {
  const ParameterView& view = matrices.views()[index];
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const OrthogonalizeResult& done = parts[p].result;
    result.flops += done.flops;
    if (done.status == OrthogonalizeStatus::non_finite || done.status == OrthogonalizeStatus::diverged) return false;
    matrices.show(input, index, matrices.parts(index)[p], parts[p].output, done.residual);
  }
  const detail::Rates rates(view, input, options.learning_rate, options.weight_decay);
  muon_momentum(factors, view.gradient, momentum[index]);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const MatrixPart& part = matrices.parts(index)[p];
    const double scale = update_scale(options.scale, part.rows, part.cols);
    muon_apply(MuonApply(rates.learning_rate, rates.weight_decay, scale), parts[p].output,
               part_view(view.weight, part));
  }
  result.flops += flops_per_element * view.elements.size();
  return true;
}

void Muon::Implementation::step(std::span<const std::size_t> indices, int worker, const StepInput& input) {
  Scratch& own = scratch[static_cast<std::size_t>(worker)];
  const MuonMomentum factors(options.momentum, input.gradient_scale, options.nesterov);
  own.tasks.clear();
  std::int64_t begin = 0;
  for (const std::size_t index : indices) {
    const std::int64_t size = matrices.views()[index].elements.size();
    start(index, factors, slice(own.direction, begin, size), own);
    begin += size;
  }
  NewtonSchulzOptions watched = options.newton_schulz;
  watched.measure_residual = watched.measure_residual || input.observer != nullptr;
  detail::orthogonalize_each<float>(own.tasks, watched, own.workspace);
  std::span<const OrthogonalizeTask<float>> tasks = own.tasks;
  for (const std::size_t index : indices) {
    const std::size_t parts = matrices.parts(index).size();
    auto& outcome = matrices.outcome(index);
    outcome.stepped = finish(index, factors, input, tasks.first(parts), outcome.result);
    tasks = tasks.subspan(parts);
  }
}

Muon::Muon(std::vector<ParameterView> views, const MuonOptions& options, int workers)
    : implementation_(std::make_unique<Implementation>()) {
  check(options);
  Implementation& made = *implementation_;
  const NewtonSchulzOptions& newton_schulz = options.newton_schulz;
  made.matrices = detail::Matrices(std::move(views), self,
                                   {newton_schulz.algorithm,
                                    newton_schulz.steps,
                                    MatrixOptimizer::muon,
                                    {},
                                    newton_schulz.dtype,
                                    workers,
                                    linalg::batches_products()});
  made.options = options;
  for (int worker = 0; worker < made.matrices.workers(); ++worker)
    made.make_scratch(worker);
  made.momentum = detail::State("matrixfsdp::optim::momentum", made.matrices.views());
}

Muon::~Muon() = default;

StepResult Muon::step(const StepInput& input) {
  return implementation_->matrices.step_batches(
      input, "matrixfsdp::optim::muon",
      [&](std::span<const std::size_t> indices, int worker) { implementation_->step(indices, worker, input); });
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
