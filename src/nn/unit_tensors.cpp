#include "nn/unit_tensors.hpp"

#include <cstddef>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::nn::detail {

// The order is that of transformer_model.
template <class T>
BlockTensors<T>::BlockTensors(const TransformerShape& shape, const UnitTensors<T>& tensors) {
  const bool biased = shape.style == TransformerStyle::gpt2;
  std::size_t next = 0;
  const auto take = [&](TensorView<T>& weight, TensorView<T>& bias) {
    weight = tensors[next++];
    if (biased) bias = tensors[next++];
  };
  take(attention_norm, attention_norm_bias);
  take(qkv, qkv_bias);
  take(output, output_bias);
  take(mlp_norm, mlp_norm_bias);
  take(up, up_bias);
  take(down, down_bias);
}

template <class T>
RootTensors<T>::RootTensors(const TransformerShape& shape, const UnitTensors<T>& tensors) {
  const bool gpt2 = shape.style == TransformerStyle::gpt2;
  std::size_t next = 0;
  token_embedding = tensors[next++];
  if (gpt2) position_embedding = tensors[next++];
  final_norm = tensors[next++];
  if (gpt2) final_norm_bias = tensors[next++];
  head = shape.tied_head ? token_embedding : tensors[next++];
}

template <class T>
void check_unit(const UnitSpec& unit, const UnitTensors<T>& tensors, TensorRole role) {
  const char* const kind = role == TensorRole::weight ? "weight" : "gradient";
  if (tensors.size() != unit.parameters.size()) {
    throw ContractError(
        fmt::format("unit {}: {} {} tensors, expected {}", unit.name, tensors.size(), kind, unit.parameters.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ParameterSpec& parameter = unit.parameters[i];
    const auto size = static_cast<std::int64_t>(tensors[i].extent(0));
    if (role == TensorRole::gradient && size == 0) continue;
    if (size != element_count(parameter.shape)) {
      throw ContractError(fmt::format("{}: {} of {} elements, expected {} {}", parameter.name, kind, size,
                                      element_count(parameter.shape), to_string(parameter.shape)));
    }
  }
}

template struct BlockTensors<float>;
template struct BlockTensors<double>;
template struct RootTensors<float>;
template struct RootTensors<double>;
template void check_unit<float>(const UnitSpec&, const UnitTensors<float>&, TensorRole);
template void check_unit<double>(const UnitSpec&, const UnitTensors<double>&, TensorRole);

}  // namespace matrixfsdp::nn::detail
