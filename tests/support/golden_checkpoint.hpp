#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/plan/model_spec.hpp>

#include "support/specs.hpp"

/// What the checkpoints of tests/io/golden hold. CMake says where they are.
namespace matrixfsdp::testing {

inline std::string golden_folder(int version) {
  return std::string(MATRIXFSDP_GOLDEN) + "/version_" + std::to_string(version) + "/step_00000012";
}

/// A matrix, a vector in two segments, a frozen vector, a parameter without elements, and a second name.
inline ModelSpec golden_model() {
  ModelSpec model;
  UnitSpec root{"root", {}, true};
  root.parameters.push_back(test::parameter("up", {4, 3}));
  root.parameters.push_back(test::parameter("bias", {10}));
  root.parameters.push_back(test::frozen("scale", {5}));
  root.parameters.push_back(test::parameter("nothing", {0, 8}));
  model.units.push_back(root);
  model.tied.push_back({"head", "up"});
  return model;
}

/// Exact in float32.
inline float golden_value(const std::string& name, const std::string& what, std::int64_t element) {
  return static_cast<float>(element) + 0.5F * static_cast<float>(name.size()) +
         0.03125F * static_cast<float>(what.size());
}

}  // namespace matrixfsdp::testing
