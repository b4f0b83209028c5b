#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/plan/model_spec.hpp>

#include "support/small_models.hpp"

/// One model with every degenerate shape.
namespace matrixfsdp::testing {

inline ParameterSpec matrix(std::string name, Shape shape) {
  ParameterSpec spec = parameter(std::move(name), std::move(shape));
  spec.kind = ParameterKind::matrix;  // one row or one column too
  return spec;
}

inline ParameterSpec fused(std::string name, Shape shape, int axis, std::vector<std::int64_t> sizes) {
  ParameterSpec spec = matrix(std::move(name), std::move(shape));
  spec.blocks = {axis, {"query", "key", "value"}, std::move(sizes)};
  return spec;
}

/// CASES 1, 2, 4, 5, 6, 12, 14, 15, 16, 20: all of (1, 2, 3, 5, 7, 18, 33, 72) x (1, 2, 3, 17, 64) as matrices, fused
/// ones along both axes, more than two dimensions, a frozen matrix, tails (one of them cut over ranks), a parameter
/// without elements, and a tied one.
inline ModelSpec shapes_model() {
  ModelSpec model;
  UnitSpec root{"root", {}, true};
  root.parameters.push_back(test::embedding("table", {1291, 10}));
  root.parameters.push_back(parameter("norm", {17}));
  root.parameters.back().initialization.kind = Initialization::Kind::ones;
  root.parameters.push_back(test::frozen("scale", {9}));
  root.parameters.push_back(parameter("nothing", {0, 8}));
  model.units.push_back(std::move(root));
  model.tied.push_back({"head", "table"});

  const auto add_rows = [&model](const std::string& unit_name, const std::vector<std::int64_t>& rows) {
    UnitSpec unit{unit_name, {}, false};
    for (const std::int64_t r : rows) {
      for (const std::int64_t c : {1, 2, 3, 17, 64}) {
        unit.parameters.push_back(matrix(fmt::format("m.{}x{}", r, c), {r, c}));
      }
    }
    model.units.push_back(std::move(unit));
  };
  add_rows("small", {1, 2, 3, 5, 7});
  model.units.back().parameters.push_back(parameter("small.bias", {18}));
  add_rows("large", {18, 33, 72});
  UnitSpec& large = model.units.back();
  large.parameters.push_back(fused("qkv.even", {12, 4}, 0, {4, 4, 4}));
  large.parameters.push_back(fused("qkv.grouped", {12, 4}, 0, {8, 2, 2}));
  large.parameters.push_back(fused("qkv.columns", {4, 12}, 1, {8, 2, 2}));
  large.parameters.push_back(matrix("experts", {2, 4, 4}));
  large.parameters.push_back(matrix("convolution", {8, 3, 3, 3}));
  large.parameters.push_back(matrix("still", {6, 4}));
  large.parameters.back().frozen = true;
  return model;
}

/// Every parameter of the model, in canonical order.
inline std::vector<ParameterSpec> all_parameters(const ModelSpec& model) {
  std::vector<ParameterSpec> all;
  for (const UnitSpec& unit : model.units)
    all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
  return all;
}

}  // namespace matrixfsdp::testing
