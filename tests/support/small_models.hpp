#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/plan/model_spec.hpp>

#include "support/specs.hpp"

/// Small models for tests of the runtime.
namespace matrixfsdp::testing {

using test::parameter;

/// A kept root (one vector, one table of 3 norm blocks and a bit, one frozen vector) and `blocks` units of three
/// matrices of different shapes, a bias, and (in block 1) a frozen matrix.
inline ModelSpec small_model(std::int64_t blocks) {
  ModelSpec model;
  UnitSpec root{"root", {}, true};
  root.parameters.push_back(test::embedding("table", {1291, 10}));
  root.parameters.push_back(parameter("norm", {17}));
  root.parameters.back().initialization.kind = Initialization::Kind::ones;
  root.parameters.push_back(test::frozen("scale", {5}));
  model.units.push_back(root);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::string prefix = "block." + std::to_string(b) + ".";
    UnitSpec unit{"block." + std::to_string(b), {}, false};
    unit.parameters.push_back(parameter(prefix + "up", {18, 7}));
    unit.parameters.push_back(parameter(prefix + "down", {7, 18}));
    unit.parameters.push_back(parameter(prefix + "mix", {5, 5}));
    unit.parameters.push_back(parameter(prefix + "bias", {18}));
    if (b == 1) unit.parameters.push_back(test::frozen(prefix + "frozen", {6, 4}));
    model.units.push_back(unit);
  }
  return model;
}

}  // namespace matrixfsdp::testing
