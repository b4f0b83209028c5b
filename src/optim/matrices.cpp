#include "optim/matrices.hpp"

#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp::detail {
namespace {

void check_is_whole_matrix(const ParameterView& view, std::string_view optimizer) {
  const std::int64_t count = element_count(view.spec->shape);
  if (view.kind == ParameterKind::matrix && view.elements == Interval{0, count}) return;
  throw ContractError(fmt::format("{}: {} is the {} elements [{}, {}) of {}, expected a whole matrix", optimizer,
                                  view.spec->name, name_of(view.kind), view.elements.begin, view.elements.end, count));
}

}  // namespace

Matrices::Matrices(std::vector<ParameterView> views, std::string_view optimizer)
    : optimizer_(optimizer), views_(canonical(std::move(views), optimizer)) {
  for (const ParameterView& view : views_) {
    check_is_whole_matrix(view, optimizer);
    parts_.push_back(matrix_parts(*view.spec));
  }
}

void Matrices::show(const StepInput& input, std::size_t index, const MatrixPart& block, MatrixView<const float> update,
                    double residual) const {
  if (input.observer == nullptr) return;
  for (const MatrixPart& part : parts_[index]) {
    if (part.offset == block.offset && part.rows == block.rows && part.cols == block.cols)
      input.observer->update(views_[index], part, update, residual);
  }
}

}  // namespace matrixfsdp::detail
