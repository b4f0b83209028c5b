#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

#include "plan/blocks.hpp"

namespace matrixfsdp {

std::string_view name_of(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::matrix:
      return "matrix";
    case ParameterKind::tail:
      return "tail";
  }
  throw ContractError(fmt::format("parameter kind {}: expected matrix or tail", static_cast<int>(kind)));
}

ParameterKind parse_parameter_kind(std::string_view name) {
  for (const ParameterKind kind : {ParameterKind::matrix, ParameterKind::tail}) {
    if (name == name_of(kind)) return kind;
  }
  throw InputError(fmt::format("parameter kind '{}': expected matrix or tail", name));
}

std::string_view name_of(Initialization::Kind kind) {
  switch (kind) {
    case Initialization::Kind::zeros:
      return "zeros";
    case Initialization::Kind::ones:
      return "ones";
    case Initialization::Kind::normal:
      return "normal";
  }
  throw ContractError(fmt::format("initialization {}: expected zeros, ones or normal", static_cast<int>(kind)));
}

Initialization::Kind parse_initialization(std::string_view name) {
  using Kind = Initialization::Kind;
  for (const Kind kind : {Kind::zeros, Kind::ones, Kind::normal}) {
    if (name == name_of(kind)) return kind;
  }
  throw InputError(fmt::format("initialization '{}': expected zeros, ones or normal", name));
}

ParameterKind kind_of(const ParameterSpec& parameter) {
  if (element_count(parameter.shape) == 0) return ParameterKind::tail;
  if (parameter.kind) return *parameter.kind;
  if (parameter.shape.size() < 2 || parameter.embedding) return ParameterKind::tail;
  const MatrixExtents extents = matrix_extents(parameter.shape);
  return extents.rows >= 2 && extents.cols >= 2 ? ParameterKind::matrix : ParameterKind::tail;
}

MatrixExtents matrix_extents(const Shape& shape) {
  switch (shape.size()) {
    case 0:
      return {1, 1, 1};
    case 1:
      return {1, 1, shape[0]};
    case 2:
      return {1, shape[0], shape[1]};
    case 3:
      return {shape[0], shape[1], shape[2]};
    default:
      return {1, shape[0], element_count(Shape(shape.begin() + 1, shape.end()))};
  }
}

std::vector<MatrixPart> matrix_parts(const ParameterSpec& parameter) {
  detail::check_blocks(parameter);
  const MatrixExtents extents = matrix_extents(parameter.shape);
  std::vector<MatrixPart> parts;
  for (std::int64_t matrix = 0; matrix < extents.batch; ++matrix) {
    std::int64_t offset = matrix * extents.rows * extents.cols;
    if (parameter.blocks.empty()) parts.push_back({offset, extents.rows, extents.cols, extents.cols, {}});
    for (std::size_t i = 0; i < parameter.blocks.sizes.size(); ++i) {
      const std::int64_t size = parameter.blocks.sizes[i];
      const std::string& name = parameter.blocks.names[i];
      if (parameter.blocks.axis == 0) {
        parts.push_back({offset, size, extents.cols, extents.cols, name});
        offset += size * extents.cols;
      } else {
        parts.push_back({offset, extents.rows, size, extents.cols, name});
        offset += size;
      }
    }
  }
  return parts;
}

ParameterGroup group_of(const ModelSpec& model, const ParameterSpec& parameter) {
  if (parameter.group.empty()) return {};
  for (const ParameterGroup& group : model.groups) {
    if (group.name == parameter.group) return group;
  }
  throw InputError(
      fmt::format("parameter '{}': group '{}' is not in the model's groups", parameter.name, parameter.group));
}

std::int64_t element_count(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      count += element_count(parameter.shape);
  }
  return count;
}

std::int64_t matrix_count(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.frozen || kind_of(parameter) != ParameterKind::matrix) continue;
      count += static_cast<std::int64_t>(matrix_parts(parameter).size());
    }
  }
  return count;
}

}  // namespace matrixfsdp
