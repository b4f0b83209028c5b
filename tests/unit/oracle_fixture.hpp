#pragma once

#include <cmath>

#include "support/oracle/transformer.hpp"

namespace oracle::test {

/// Values that a few lines of any language can make: 0.4 sin(0.37 i^2 + k) for element i (from 1) of parameter k (from
/// 0) in canonical order, plus 1 for norm weights.
inline Parameters formula_parameters(const Model& model) {
  Parameters parameters;
  double k = 0.0;
  for (const ParameterInfo& info : parameter_list(model)) {
    Tensor tensor = zeros(info.shape);
    const bool is_norm_weight = info.name.find("norm.weight") != std::string::npos;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const auto at = static_cast<double>(i + 1);
      tensor.values[i] = 0.4 * std::sin(0.37 * at * at + k) + (is_norm_weight ? 1.0 : 0.0);
    }
    parameters.emplace(info.name, std::move(tensor));
    k += 1.0;
  }
  return parameters;
}

inline Model small_gpt2() {
  Model model;
  model.style = Style::gpt2;
  model.layers = 2;
  model.hidden = 12;
  model.heads = 3;
  model.kv_heads = 3;
  model.ffn = 20;
  model.sequence_length = 8;
  model.vocabulary = 11;
  model.tied_head = true;
  return model;
}

inline Model small_llama() {
  Model model = small_gpt2();
  model.style = Style::llama;
  model.kv_heads = 1;
  model.ffn = 10;
  model.tied_head = false;
  return model;
}

/// Shorter than the model's sequence length.
inline std::vector<Sequence> two_sequences() {
  return {{3, 1, 4, 1, 5, 9, 2}, {6, 5, 3, 5, 8, 9, 7}};
}

/// Mean loss over all tokens, and its gradient where one is asked for.
inline double mean_loss(const Model& model, const Parameters& parameters, const std::vector<Sequence>& batch,
                        Parameters* gradient = nullptr) {
  std::size_t tokens = 0;
  for (const Sequence& sequence : batch)
    tokens += sequence.size() - 1;
  const auto count = static_cast<double>(tokens);
  double total = 0.0;
  for (const Sequence& sequence : batch) {
    total += gradient == nullptr ? loss_sum(model, parameters, sequence)
                                 : loss_sum_and_gradient(model, parameters, sequence, 1.0 / count, *gradient);
  }
  return total / count;
}

}  // namespace oracle::test
