#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/optim/optimizer.hpp>

#include "support/specs.hpp"

namespace matrixfsdp::test {

/// Parameters with their storage, as an optimizer sees them. Weights and gradients are drawn by name.
class Parameters {
 public:
  /// A whole parameter; `spec` needs a name and a shape.
  ParameterView& add(ParameterSpec spec, ParameterKind kind, ParameterGroup group = {}) {
    const Interval all{0, element_count(spec.shape)};
    return add_segment(std::move(spec), kind, all, std::move(group));
  }

  /// The elements [begin, end) of a parameter: equal values wherever it is cut.
  ParameterView& add_segment(ParameterSpec spec, ParameterKind kind, Interval elements, ParameterGroup group = {}) {
    Held& held = held_.emplace_back();
    held.spec = std::move(spec);
    held.weight = make_tensor<float>("weight", elements.size());
    held.gradient = make_tensor<float>("gradient", elements.size());
    held.view.index = held_.size() - 1;
    held.view.spec = &held.spec;
    held.view.kind = kind;
    held.view.group = std::move(group);
    held.view.elements = elements;
    held.view.weight = held.weight;
    held.view.gradient = held.gradient;
    draw(held.view.weight, held.view, 1, 1.0);
    draw(held.view.gradient, held.view, 2, 1.0);
    return held.view;
  }

  [[nodiscard]] std::vector<ParameterView> views() const {
    std::vector<ParameterView> views;
    for (const Held& held : held_)
      views.push_back(held.view);
    return views;
  }

  /// New gradients, times `factor`.
  void draw_gradients(std::uint64_t seed, double factor = 1.0) {
    for (Held& held : held_)
      draw(held.view.gradient, held.view, seed, factor);
  }

 private:
  struct Held {
    ParameterSpec spec;
    Tensor<float> weight;
    Tensor<float> gradient;
    ParameterView view;
  };

  static void draw(const TensorView<float>& values, const ParameterView& view, std::uint64_t seed, double factor) {
    const CounterRandom random(seed, stream_of(view.spec->name));
    for (std::int64_t i = 0; i < view.elements.size(); ++i) {
      const auto element = static_cast<std::uint64_t>(view.elements.begin + i);
      values.data()[i] = static_cast<float>(factor * static_cast<double>(static_cast<float>(random.normal(element))));
    }
  }

  std::deque<Held> held_;
};

/// A parameter of blocks "b0", "b1", ... along `axis`.
inline ParameterSpec fused(std::string name, Shape shape, int axis, std::vector<std::int64_t> sizes) {
  ParameterSpec spec = parameter(std::move(name), std::move(shape));
  spec.blocks.axis = axis;
  spec.blocks.sizes = std::move(sizes);
  for (std::size_t i = 0; i < spec.blocks.sizes.size(); ++i)
    spec.blocks.names.push_back(fmt::format("b{}", i));
  return spec;
}

inline std::vector<double> doubles_of(const TensorView<float>& view) {
  return {view.data(), view.data() + view.extent(0)};
}

inline std::vector<float> values_of(const TensorView<float>& view) {
  return {view.data(), view.data() + view.extent(0)};
}

/// Memory as it is: NaN and signed zeros compare by their bits.
inline std::string bits_of(const TensorView<float>& view) {
  return {reinterpret_cast<const char*>(view.data()), view.extent(0) * sizeof(float)};
}

inline void fill(const TensorView<float>& view, float value) {
  Kokkos::deep_copy(view, value);
}

/// Makes an optimizer of nothing with changed options: whether it accepts them.
template <class Optimizer, class Options>
void make_with(void (*change)(Options& options)) {
  Options options;
  change(options);
  Optimizer({}, options);
}

}  // namespace matrixfsdp::test
