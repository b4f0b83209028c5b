#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/nn/transformer.hpp>

/// A whole transformer in one process: weights, gradients and one pass.
namespace matrixfsdp::test {

/// Small, with nothing divisible by anything: 2 blocks, hidden 24, 3 heads, vocabulary 11, sequences of 7 (of 9).
inline TransformerShape small_gpt2(bool tied = true) {
  return {TransformerStyle::gpt2, 2, 24, 3, 3, 20, 9, 11, tied};
}
/// The same with 6 heads on 2 key and value heads.
inline TransformerShape small_llama(bool tied = false) {
  return {TransformerStyle::llama, 2, 24, 6, 2, 17, 9, 11, tied};
}
inline nn::TransformerOptions small_options(bool recompute = false) {
  return {2, 7, recompute, 5, 4};
}

inline std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  const CounterRandom random(seed, 1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(random.below(i, static_cast<std::uint64_t>(vocabulary)));
  return ids;
}

template <class T>
struct WholeModel {
  ModelSpec spec;
  std::vector<Tensor<T>> owners;
  std::vector<UnitTensors<T>> weights;
  std::vector<UnitTensors<T>> gradients;

  /// Weights of a size at which nothing is linear: norms 1 + 0.3 n, biases 0.3 n, matrices spread n. All are float32
  /// values, so models of float and double have the same.
  explicit WholeModel(const TransformerShape& shape, double spread = 0.3) : spec(transformer_model(shape)) {
    for (const UnitSpec& unit : spec.units) {
      weights.emplace_back();
      gradients.emplace_back();
      for (const ParameterSpec& parameter : unit.parameters) {
        const CounterRandom random(7, stream_of(parameter.name));
        const std::int64_t count = element_count(parameter.shape);
        const bool ones = parameter.initialization.kind == Initialization::Kind::ones;
        owners.push_back(make_tensor<T>(parameter.name, count));
        for (std::int64_t i = 0; i < count; ++i) {
          const double value = spread * random.normal(static_cast<std::uint64_t>(i)) + (ones ? 1.0 : 0.0);
          owners.back().data()[i] = static_cast<T>(static_cast<float>(value));
        }
        weights.back().push_back(owners.back());
        owners.push_back(make_zeros<T>(parameter.name, count));
        gradients.back().push_back(owners.back());
      }
    }
  }

  [[nodiscard]] std::size_t blocks() const { return weights.size() - 1; }

  void fill_gradients(T value) {
    for (auto& unit : gradients) {
      for (auto& gradient : unit)
        Kokkos::deep_copy(gradient, value);
    }
  }

  void forward(nn::Transformer<T>& network, const std::vector<std::int32_t>& tokens) const {
    network.embed(weights[0], tokens);
    for (std::size_t b = 0; b < blocks(); ++b)
      network.block_forward(static_cast<std::int64_t>(b), weights[b + 1]);
  }

  double loss(nn::Transformer<T>& network, const std::vector<std::int32_t>& tokens,
              const std::vector<std::int32_t>& targets) const {
    forward(network, tokens);
    return network.loss(weights[0], targets);
  }

  /// Adds to the gradients.
  double pass(nn::Transformer<T>& network, const std::vector<std::int32_t>& tokens,
              const std::vector<std::int32_t>& targets, T scale) {
    forward(network, tokens);
    const double sum = network.loss_forward_backward(weights[0], gradients[0], targets, scale);
    for (std::size_t b = blocks(); b > 0; --b)
      network.block_backward(static_cast<std::int64_t>(b) - 1, weights[b], gradients[b]);
    network.embed_backward(gradients[0], tokens);
    return sum;
  }

  /// All gradients as they are in memory.
  [[nodiscard]] std::string gradient_bits() const {
    std::string bits;
    for (const auto& unit : gradients) {
      for (const auto& gradient : unit)
        bits.append(reinterpret_cast<const char*>(gradient.data()), gradient.extent(0) * sizeof(T));
    }
    return bits;
  }

  /// Weights in double by name.
  [[nodiscard]] std::map<std::string, std::vector<double>> named_weights() const {
    std::map<std::string, std::vector<double>> named;
    for (std::size_t u = 0; u < weights.size(); ++u) {
      for (std::size_t i = 0; i < weights[u].size(); ++i) {
        const T* const data = weights[u][i].data();
        named[spec.units[u].parameters[i].name].assign(data, data + weights[u][i].extent(0));
      }
    }
    return named;
  }
};

}  // namespace matrixfsdp::test
