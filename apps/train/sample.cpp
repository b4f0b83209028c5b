#include <algorithm>
#include <cmath>

#include <matrixfsdp/core/random.hpp>

#include "apps/train/replica.hpp"
#include "apps/train/sampler.hpp"

namespace matrixfsdp::train {
namespace {

/// Draws from softmax(logits / temperature) with one uniform number; the largest logit at temperature 0.
std::int32_t draw(const Tensor<float>& logits, double temperature, double uniform) {
  const auto count = static_cast<std::int64_t>(logits.size());
  const float* values = logits.data();
  const std::int64_t best = std::max_element(values, values + count) - values;
  if (temperature <= 0) return static_cast<std::int32_t>(best);
  std::vector<double> weights(static_cast<std::size_t>(count));
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double weight = std::exp((static_cast<double>(values[i]) - values[best]) / temperature);
    weights[static_cast<std::size_t>(i)] = weight;
    total += weight;
  }
  double left = uniform * total;
  for (std::int64_t i = 0; i < count; ++i) {
    left -= weights[static_cast<std::size_t>(i)];
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace

// Every rank computes the same continuation, because unsharding needs them all. Later tokens do not change earlier ones
// (causal attention), so a context shorter than the sequence is filled up with zeros.
std::vector<std::int32_t> sample(ShardedModel& model, const TransformerShape& shape, std::vector<std::int32_t> prompt,
                                 const SampleOptions& options) {
  const std::int64_t length = shape.sequence_length;
  nn::TransformerOptions one;
  one.micro_batch = 1;
  one.sequence_length = length;
  one.compute = options.compute;
  nn::Transformer<float> network(shape, one);
  Tensor<float> logits = make_tensor<float>("logits", shape.vocabulary);
  const CounterRandom random(options.seed, stream_of("sample") + static_cast<std::uint64_t>(options.step));
  std::vector<std::int32_t> generated;
  for (std::int64_t i = 0; i < options.count; ++i) {
    // When the context is full, keep its later half, so that half of the window is always context.
    if (static_cast<std::int64_t>(prompt.size()) > length)
      prompt.erase(prompt.begin(), prompt.end() - (length + 1) / 2);
    std::vector<std::int32_t> window = prompt;
    window.resize(static_cast<std::size_t>(length), 0);
    run_forward(model, network, window, [&](const UnitTensors<float>& root) {
      network.logits(root, static_cast<std::int64_t>(prompt.size()) - 1, logits);
    });
    Kokkos::fence();
    const std::int32_t token = draw(logits, options.temperature, random.uniform(static_cast<std::uint64_t>(i)));
    prompt.push_back(token);
    generated.push_back(token);
  }
  return generated;
}

}  // namespace matrixfsdp::train
