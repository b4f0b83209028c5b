#include <matrixfsdp/core/random.hpp>

#include "fsdp/implementation.hpp"

namespace matrixfsdp {
namespace {

void fill(const TensorView<float>& weight, const ParameterSpec& spec, Interval elements, std::uint64_t seed) {
  const Initialization initialization = spec.initialization;
  const CounterRandom random(seed, stream_of(spec.name));
  const auto values = Kokkos::create_mirror_view(Kokkos::HostSpace(), weight);
  for (std::int64_t i = 0; i < elements.size(); ++i) {
    double value = 0.0;
    if (initialization.kind == Initialization::Kind::ones) value = 1.0;
    if (initialization.kind == Initialization::Kind::normal) {
      value = initialization.standard_deviation * random.normal(static_cast<std::uint64_t>(elements.begin + i));
    }
    values(static_cast<std::size_t>(i)) = static_cast<float>(value);
  }
  Kokkos::deep_copy(weight, values);
}

}  // namespace

void ShardedModel::Implementation::initialize_weights() {
  for (const ParameterView& view : resident_views)
    fill(view.weight, *view.spec, view.elements, options.seed);
  if (!options.resident_weights || whole_here()) return;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t p = 0; p < model.units[u].parameters.size(); ++p) {
      const ParameterSpec& spec = model.units[u].parameters[p];
      fill(units[u].weights[p], spec, {0, element_count(spec.shape)}, options.seed);
    }
  }
}

}  // namespace matrixfsdp
