#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// A trainable segment as its holder sees it: a whole matrix, or the interval of a tail that lives here. Optimizers see
/// nothing else. Views stay valid, at the same address, for the life of the ShardedModel.
struct ParameterView {
  std::size_t unit = 0;                      ///< of the model
  std::size_t index = 0;                     ///< within the unit
  const ParameterSpec* spec = nullptr;       ///< of the whole parameter, in the model's specification
  ParameterKind kind = ParameterKind::tail;  ///< kind_of(*spec): which optimizer steps it
  ParameterGroup group;                      ///< what *spec names, or the default group
  Interval elements;                         ///< within the parameter; everything for a matrix
  TensorView<float> weight;                  ///< elements.size()
  TensorView<float> gradient;                ///< elements.size(); the full sum over the global batch, unscaled
};

/// The parameters of one unsharded unit (or of its gradient buffer), by index within the unit. A frozen parameter has
/// an empty gradient.
template <class T>
using UnitTensors = std::vector<TensorView<T>>;

/// One part (see matrix_parts) of a matrix parameter whose elements are `values`, all of them. Unchecked: the part lies
/// inside. Non-owning.
template <class T>
MatrixView<T> part_view(const TensorView<T>& values, const MatrixPart& part) {
  return {values.data() + part.offset, part.rows, part.cols, part.stride};
}

}  // namespace matrixfsdp
