#pragma once

#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/optimizer.hpp>

namespace matrixfsdp::io {

/// What this rank holds of one weight or optimizer state.
struct LocalTensor {
  const ParameterSpec* spec = nullptr;
  std::string what;  ///< "weight" or a state's name
  Interval elements;
  std::int64_t segment = -1;  ///< which of the parameter's segments in the plan; -1: the whole parameter
  TensorView<float> values;
  std::string optimizer;            ///< that keeps the state; empty for weights
  std::optional<Shape> shape = {};  ///< of a state that has not its parameter's extents: `elements` are of this
};

/// Weights of all resident segments. Parameters without elements have none.
std::vector<LocalTensor> local_weights(const ShardedModel& model);

/// Weights, then optimizer state. Throws ContractError for a state that has not one value for each element of its view,
/// or as many as its own shape says.
std::vector<LocalTensor> local_tensors(const ShardedModel& model, Optimizer& optimizer);

}  // namespace matrixfsdp::io
