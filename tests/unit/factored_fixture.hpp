#pragma once

#include <string>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/optimizer.hpp>

#include "support/reference_linalg.hpp"

namespace matrixfsdp::test {

inline reference::Dense dense(const TensorView<float>& values, const MatrixPart& part) {
  reference::Dense result(part.rows, part.cols);
  for (std::int64_t i = 0; i < part.rows; ++i) {
    for (std::int64_t j = 0; j < part.cols; ++j)
      result(i, j) = static_cast<double>(part_view(values, part)(i, j));
  }
  return result;
}

/// State `name` of the first parameter.
inline TensorView<float> state_of(Optimizer& optimizer, const std::string& name) {
  for (const StateView& state : optimizer.state()) {
    if (state.name == name) return state.values;
  }
  throw ContractError("no state " + name);
}

}  // namespace matrixfsdp::test
