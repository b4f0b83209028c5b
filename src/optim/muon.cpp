#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/muon.hpp>
#include <matrixfsdp/optim/muon_phases.hpp>

#include "optim/views.hpp"

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

void check_is_whole_matrix(const ParameterView& view) {
  const std::int64_t count = element_count(view.spec->shape);
  if (view.kind == ParameterKind::matrix && view.elements == Interval{0, count}) return;
  throw ContractError(fmt::format("Muon: {} is the {} elements [{}, {}) of {}, expected a whole matrix",
                                  view.spec->name, name_of(view.kind), view.elements.begin, view.elements.end, count));
}

}  // namespace

struct Muon::Implementation {
  std::vector<ParameterView> views;
  std::vector<std::vector<MatrixPart>> parts;  // of each view
  MuonOptions options;
  detail::State momentum;
  Tensor<float> direction;  // of one whole parameter: nothing of it is applied before all its parts have succeeded
  NewtonSchulzWorkspace<float> workspace;

  bool orthogonalize_parts(std::size_t index, const TensorView<float>& u, StepResult& result);
  void step(std::size_t index, const StepInput& input, StepResult& result);
};

bool Muon::Implementation::orthogonalize_parts(std::size_t index, const TensorView<float>& u, StepResult& result) {
  for (const MatrixPart& part : parts[index]) {
    const MatrixView<float> matrix = part_view(u, part);
    const OrthogonalizeResult done = orthogonalize<float>(matrix, matrix, options.newton_schulz, workspace);
    result.flops += done.flops;
    if (done.status == OrthogonalizeStatus::non_finite || done.status == OrthogonalizeStatus::diverged) return false;
  }
  return true;
}

void Muon::Implementation::step(std::size_t index, const StepInput& input, StepResult& result) {
  const ParameterView& view = views[index];
  if (view.elements.empty()) return;
  const auto start = std::chrono::steady_clock::now();
  const detail::Region region(view.spec->name);
  const MuonMomentum factors(options.momentum, input.gradient_scale, options.nesterov);
  const TensorView<float> u = slice(direction, 0, view.elements.size());
  muon_direction(factors, view.gradient, momentum[index], u);
  if (!orthogonalize_parts(index, u, result)) {
    result.failed.push_back(view.spec->name);
    return;
  }
  const double learning_rate = input.schedule * options.learning_rate * view.group.learning_rate_scale;
  const double weight_decay = view.group.weight_decay.value_or(options.weight_decay);
  muon_momentum(factors, view.gradient, momentum[index]);
  for (const MatrixPart& part : parts[index]) {
    const double scale = update_scale(options.scale, part.rows, part.cols);
    muon_apply(MuonApply(learning_rate, weight_decay, scale), part_view(u, part), part_view(view.weight, part));
  }
  result.matrices_orthogonalized += static_cast<std::int64_t>(parts[index].size());
  result.flops += flops_per_element * view.elements.size();
  result.seconds.push_back(
      {view.spec, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
}

Muon::Muon(std::vector<ParameterView> views, const MuonOptions& options)
    : implementation_(std::make_unique<Implementation>()) {
  check(options);
  Implementation& made = *implementation_;
  made.views = detail::canonical(std::move(views), self);
  made.options = options;
  std::int64_t largest = 0;
  for (const ParameterView& view : made.views) {
    check_is_whole_matrix(view);
    made.parts.push_back(matrix_parts(*view.spec));
    largest = std::max(largest, view.elements.size());
    for (const MatrixPart& part : made.parts.back()) {
      made.workspace.reserve(part.rows, part.cols, options.newton_schulz);
    }
  }
  made.momentum = detail::State("matrixfsdp::optim::momentum", made.views);
  made.direction = make_tensor<float>("matrixfsdp::optim::direction", largest);
}

Muon::~Muon() = default;

StepResult Muon::step(const StepInput& input) {
  detail::check(input, self);
  const detail::Region region("matrixfsdp::optim::muon");
  StepResult result;
  for (std::size_t i = 0; i < implementation_->views.size(); ++i)
    implementation_->step(i, input, result);
  return result;
}

const std::vector<ParameterView>& Muon::views() const {
  return implementation_->views;
}

std::vector<StateView> Muon::state() {
  std::vector<StateView> state;
  for (std::size_t i = 0; i < implementation_->views.size(); ++i) {
    state.push_back({i, "momentum", implementation_->momentum[i], "muon"});
  }
  return state;
}

std::int64_t Muon::state_bytes() const {
  return implementation_->momentum.bytes();
}

std::int64_t Muon::workspace_bytes() const {
  return static_cast<std::int64_t>(implementation_->direction.extent(0) * sizeof(float)) +
         implementation_->workspace.bytes();
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
