#pragma once

#include <string>
#include <utility>

#include <matrixfsdp/plan/model_spec.hpp>

/// Parameters of a model in one line each.
namespace matrixfsdp::test {

inline ParameterSpec parameter(std::string name, Shape shape) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  return spec;
}

inline ParameterSpec frozen(std::string name, Shape shape) {
  ParameterSpec spec = parameter(std::move(name), std::move(shape));
  spec.frozen = true;
  return spec;
}

inline ParameterSpec embedding(std::string name, Shape shape) {
  ParameterSpec spec = parameter(std::move(name), std::move(shape));
  spec.embedding = true;
  return spec;
}

}  // namespace matrixfsdp::test
