#include "baselines/row_muon.hpp"

#include <utility>

#include "orthogonalize/batch.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp::baselines {
namespace {

constexpr const char* self = "Muon";
constexpr std::int64_t flops_per_element = 6;  // as step_flops counts the element-wise part

/// As Muon checks them.
MuonOptions checked(const MuonOptions& options) {
  const Muon none({}, options);
  return options;
}

RowMatrix row_matrix(const ModelSpec& model, const ParameterSpec& spec) {
  RowMatrix matrix;
  matrix.spec = &spec;
  matrix.group = group_of(model, spec);
  matrix.blocks = row_blocks(spec);
  matrix.size = element_count(spec.shape);
  matrix.parts.resize(matrix.blocks.size());
  std::size_t block = 0;
  for (const MatrixPart& part : matrix_parts(spec)) {
    while (part.offset >= matrix.blocks[block].offset + matrix.blocks[block].size())
      ++block;
    matrix.parts[block].push_back(part);
  }
  return matrix;
}

/// Every rank has the same list, whatever it holds of them. Views are in canonical order, as the matrices are.
std::vector<RowMatrix> row_matrices(const ShardedModel& model, const std::vector<ParameterView>& views) {
  std::vector<RowMatrix> matrices;
  std::size_t view = 0;
  for (std::size_t u = 0; u < model.spec().units.size(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.spec().units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].frozen || kind_of(parameters[p]) != ParameterKind::matrix) continue;
      RowMatrix matrix = row_matrix(model.spec(), parameters[p]);
      std::size_t block = 0;
      for (; view < views.size() && views[view].unit == u && views[view].index == p; ++view) {
        while (views[view].elements.begin >= matrix.blocks[block].offset + matrix.blocks[block].size())
          ++block;
        matrix.rows.push_back({block, views[view].elements, matrix.local_size, view});
        matrix.local_size += views[view].elements.size();
      }
      matrices.push_back(std::move(matrix));
    }
  }
  return matrices;
}

}  // namespace

void abandon(std::vector<Tensor<float>> buffers) {
  // Without memory for that, ending the program is the safe way.
  new std::vector<Tensor<float>>(std::move(buffers));  // NOLINT(bugprone-unhandled-exception-at-new)
}

const LocalRows* RowMatrix::rows_of(std::size_t block) const {
  for (const LocalRows& one : rows) {
    if (one.block == block) return &one;
  }
  return nullptr;
}

RowMuon::RowMuon(ShardedModel& model, std::vector<ParameterView> views, const MuonOptions& options, int workers)
    : communicator_(model.communicator()),
      options_(checked(options)),
      views_(matrixfsdp::detail::canonical(std::move(views), self)),
      matrices_(row_matrices(model, views_)),
      momentum_("matrixfsdp::baselines::momentum", views_),
      workers_(workers) {
  if (matrixfsdp::detail::kernels_run_on_host) workspace_.workers = &workers_;
}

std::vector<StateView> RowMuon::state() {
  std::vector<StateView> state;
  for (std::size_t i = 0; i < views_.size(); ++i)
    state.push_back({i, "momentum", momentum_[i], "muon"});
  return state;
}

StepResult RowMuon::step(const StepInput& input) {
  matrixfsdp::detail::check(input, self);
  const matrixfsdp::detail::Region region("matrixfsdp::baselines::muon");
  StepResult result;
  interrupted_ = true;
  step_all(input, result);
  interrupted_ = false;
  return result;
}

MuonMomentum RowMuon::factors(const StepInput& input) const {
  return {options_.momentum, input.gradient_scale, options_.nesterov};
}

void RowMuon::direction_into_whole(const RowMatrix& matrix, const StepInput& input,
                                   const TensorView<float>& whole) const {
  for (const LocalRows& rows : matrix.rows) {
    muon_direction(factors(input), views_[rows.view].gradient, momentum_[rows.view],
                   slice(whole, rows.elements.begin, rows.elements.size()));
  }
}

void RowMuon::direction_into_rows(const RowMatrix& matrix, const StepInput& input,
                                  const TensorView<float>& updates) const {
  for (const LocalRows& rows : matrix.rows) {
    muon_direction(factors(input), views_[rows.view].gradient, momentum_[rows.view],
                   slice(updates, rows.place, rows.elements.size()));
  }
}

void RowMuon::apply_whole(const RowMatrix& matrix, const StepInput& input, const TensorView<float>& whole,
                          StepResult& result) {
  for (const LocalRows& rows : matrix.rows)
    apply(matrix, rows, input, slice(whole, rows.elements.begin, rows.elements.size()));
  result.flops += flops_per_element * matrix.local_size;
}

void RowMuon::apply_rows(const RowMatrix& matrix, const StepInput& input, const TensorView<float>& updates,
                         StepResult& result) {
  for (const LocalRows& rows : matrix.rows)
    apply(matrix, rows, input, slice(updates, rows.place, rows.elements.size()));
  result.flops += flops_per_element * matrix.local_size;
}

void RowMuon::apply(const RowMatrix& matrix, const LocalRows& rows, const StepInput& input,
                    const TensorView<float>& update) {
  const ParameterView& view = views_[rows.view];
  const RowBlock& block = matrix.blocks[rows.block];
  const double learning_rate = input.schedule * options_.learning_rate * matrix.group.learning_rate_scale;
  const double weight_decay = matrix.group.weight_decay.value_or(options_.weight_decay);
  const std::int64_t count = rows.elements.size() / block.cols;
  muon_momentum(factors(input), view.gradient, momentum_[rows.view]);
  for (const MatrixPart& part : matrix.parts[rows.block]) {
    const std::int64_t column = part.offset - block.offset;
    const MuonApply apply(learning_rate, weight_decay, update_scale(options_.scale, part.rows, part.cols));
    muon_apply(apply, MatrixView<const float>(update.data() + column, count, part.cols, block.cols),
               MatrixView<float>(view.weight.data() + column, count, part.cols, block.cols));
  }
}

bool RowMuon::orthogonalize_whole(const RowMatrix& matrix, const TensorView<float>& whole, StepResult& result) {
  bool good = false;
  workers_.run([&](std::int64_t worker) {
    if (worker == 0) good = orthogonalize_parts(matrix, whole, result);
  });
  return good;
}

bool RowMuon::orthogonalize_parts(const RowMatrix& matrix, const TensorView<float>& whole, StepResult& result) {
  tasks_.clear();
  for (const std::vector<MatrixPart>& parts : matrix.parts) {
    for (const MatrixPart& part : parts) {
      const MatrixView<float> view = part_view(whole, part);
      tasks_.push_back({view, view, {}});
    }
  }
  matrixfsdp::detail::orthogonalize_each<float>(tasks_, options_.newton_schulz, workspace_);
  for (const OrthogonalizeTask<float>& task : tasks_) {
    result.flops += task.result.flops;
    if (task.result.status == OrthogonalizeStatus::non_finite || task.result.status == OrthogonalizeStatus::diverged)
      return false;
  }
  result.matrices_orthogonalized += static_cast<std::int64_t>(tasks_.size());
  return true;
}

void RowMuon::reserve(const RowMatrix& matrix) {
  const NewtonSchulzOptions& newton_schulz = options_.newton_schulz;
  for (const std::vector<MatrixPart>& parts : matrix.parts) {
    for (const MatrixPart& part : parts) {
      workspace_.reserve(part.rows, part.cols, newton_schulz,
                         matrixfsdp::detail::slots_of(part.rows, part.cols, newton_schulz));
    }
  }
}

}  // namespace matrixfsdp::baselines
