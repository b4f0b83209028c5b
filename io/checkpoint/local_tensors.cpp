#include "io/checkpoint/local_tensors.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/manifest.hpp>

namespace matrixfsdp::io {
namespace {

std::int64_t segment_index(const Plan& plan, const ParameterView& view) {
  if (view.elements == Interval{0, element_count(view.spec->shape)}) return -1;
  const auto& segments = plan.units[view.unit].weights.segments;
  return std::count_if(segments.begin(), segments.end(), [&](const Segment& segment) {
    return segment.parameter == view.index && segment.elements.begin < view.elements.begin;
  });
}

void add(std::vector<LocalTensor>& tensors, const ParameterView& view, LocalTensor tensor) {
  if (static_cast<std::int64_t>(tensor.values.size()) != tensor.elements.size()) {
    throw ContractError(fmt::format("{} of '{}': {} values; expected {}", tensor.what, view.spec->name,
                                    tensor.values.size(), tensor.elements.size()));
  }
  if (!view.elements.empty()) tensors.push_back(std::move(tensor));
}

}  // namespace

std::vector<LocalTensor> local_weights(const ShardedModel& model) {
  std::vector<LocalTensor> tensors;
  for (const ParameterView& view : model.resident()) {
    add(tensors, view,
        {view.spec, std::string(weight_name), view.elements, segment_index(model.plan(), view), view.weight, {}});
  }
  return tensors;
}

std::vector<LocalTensor> local_tensors(const ShardedModel& model, Optimizer& optimizer) {
  std::vector<LocalTensor> tensors = local_weights(model);
  for (const StateView& state : optimizer.state()) {
    const ParameterView& view = optimizer.views().at(state.view);
    const Interval elements = state.shape ? Interval{0, element_count(*state.shape)} : view.elements;
    const std::int64_t segment = state.shape ? -1 : segment_index(model.plan(), view);
    add(tensors, view, {view.spec, state.name, elements, segment, state.values, state.optimizer, state.shape});
  }
  return tensors;
}

}  // namespace matrixfsdp::io
