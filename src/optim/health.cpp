#include <algorithm>
#include <cmath>

#include <matrixfsdp/optim/health.hpp>

#include "optim/views.hpp"

namespace matrixfsdp {
namespace {

/// Sum of squares, and number of values that are not finite, of one row.
struct RowSums {
  double squares = 0;
  double non_finite = 0;

  KOKKOS_INLINE_FUNCTION void operator+=(const RowSums& other) {
    squares += other.squares;
    non_finite += other.non_finite;
  }
};

KOKKOS_INLINE_FUNCTION RowSums row_sums(const float* row, std::int64_t count) {
  constexpr int lanes = 8;
  RowSums partial[lanes];
  for (std::int64_t j = 0; j < count; ++j) {
    const double value = row[j];
    partial[j % lanes] += {value * value, value - value == 0.0 ? 0.0 : 1.0};
  }
  RowSums sum;
  for (const RowSums& one : partial)
    sum += one;
  return sum;
}

/// Row by row, from the first to the last: the same bits however many threads there are.
RowSums sums_of(MatrixView<const float> matrix) {
  RowSums sum;
  Kokkos::fence();
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    sum += row_sums(matrix.data + i * matrix.stride, matrix.cols);
  return sum;
}

std::int64_t count_non_finite(const TensorView<const float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return std::llround(sums_of({values.data(), 1, count}).non_finite);
}

}  // namespace

MatrixFigures measure_matrix(MatrixView<const float> matrix, linalg::SingularValueWorkspace& workspace) {
  const RowSums sums = sums_of(matrix);
  MatrixFigures figures;
  figures.norm = std::sqrt(sums.squares);
  figures.non_finite = sums.non_finite;
  if (sums.non_finite > 0) return figures;
  const linalg::SingularValues values = linalg::estimate_singular_values(matrix, health_steps, workspace);
  figures.largest = values.largest;
  figures.smallest = values.smallest;
  return figures;
}

HealthProbe::HealthProbe(const std::vector<ParameterView>& views) {
  for (const ParameterView& view : views) {
    if (view.kind != ParameterKind::matrix) continue;
    matrices_.push_back({view.unit, view.index, parts_.size(), matrix_parts(*view.spec)});
    parts_.resize(parts_.size() + matrices_.back().parts.size());
    for (const MatrixPart& part : matrices_.back().parts)
      workspace_.reserve(part.rows, part.cols, health_steps);
  }
}

void HealthProbe::begin_step() {
  std::fill(parts_.begin(), parts_.end(), MatrixHealth());
}

const HealthProbe::Matrix* HealthProbe::find(const ParameterView& view) const {
  const auto found = std::find_if(matrices_.begin(), matrices_.end(), [&view](const Matrix& matrix) {
    return matrix.unit == view.unit && matrix.index == view.index;
  });
  return found == matrices_.end() ? nullptr : &*found;
}

void HealthProbe::before_step(const ParameterView& view) {
  const Matrix* const matrix = find(view);
  if (matrix == nullptr) return;
  for (std::size_t p = 0; p < matrix->parts.size(); ++p) {
    MatrixHealth& health = parts_[matrix->first + p];
    health.gradient = measure_matrix(part_view(view.gradient, matrix->parts[p]), workspace_);
    health.weight = measure_matrix(part_view(view.weight, matrix->parts[p]), workspace_);
  }
}

void HealthProbe::update(const ParameterView& view, const MatrixPart& part, MatrixView<const float> update,
                         double residual) {
  const Matrix* const matrix = find(view);
  if (matrix == nullptr) return;
  for (std::size_t p = 0; p < matrix->parts.size(); ++p) {
    if (matrix->parts[p].offset != part.offset) continue;
    MatrixHealth& health = parts_[matrix->first + p];
    health.update = measure_matrix(update, workspace_);
    health.residual = residual;
  }
}

std::vector<NonFinite> non_finite_values(Optimizer& optimizer, std::optional<std::size_t> unit,
                                         const std::vector<std::string>& failed) {
  std::vector<NonFinite> found;
  const std::vector<ParameterView>& views = optimizer.views();
  const auto look = [&found](const ParameterView& view, const std::string& quantity,
                             const TensorView<const float>& values) {
    const std::int64_t count = count_non_finite(values);
    if (count > 0) found.push_back({view.spec->name, quantity, count});
  };
  for (const ParameterView& view : views) {
    if (!detail::is_of(unit, view)) continue;
    look(view, "gradient", view.gradient);
    look(view, "weight", view.weight);
  }
  for (const StateView& state : optimizer.state()) {
    if (detail::is_of(unit, views[state.view])) look(views[state.view], state.name, state.values);
  }
  for (const std::string& name : failed) {
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const NonFinite& one) { return one.parameter == name; });
    if (!known) found.push_back({name, "update", 0});
  }
  return found;
}

}  // namespace matrixfsdp
