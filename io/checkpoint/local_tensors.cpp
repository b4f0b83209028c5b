#include "io/checkpoint/local_tensors.hpp"

#include <algorithm>

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

void add(std::vector<LocalTensor>& tensors, const Plan& plan, const ParameterView& view, std::string what,
         const TensorView<float>& values, std::string keeper) {
  if (static_cast<std::int64_t>(values.size()) != view.elements.size()) {
    throw ContractError(
        fmt::format("{} of '{}': {} values; expected {}", what, view.spec->name, values.size(), view.elements.size()));
  }
  if (view.elements.empty()) return;
  tensors.push_back({view.spec, std::move(what), view.elements, segment_index(plan, view), values, std::move(keeper)});
}

}  // namespace

std::vector<LocalTensor> local_weights(const ShardedModel& model) {
  std::vector<LocalTensor> tensors;
  for (const ParameterView& view : model.resident())
    add(tensors, model.plan(), view, std::string(weight_name), view.weight, {});
  return tensors;
}

std::vector<LocalTensor> local_tensors(const ShardedModel& model, Optimizer& optimizer) {
  std::vector<LocalTensor> tensors = local_weights(model);
  for (const StateView& state : optimizer.state())
    add(tensors, model.plan(), optimizer.views().at(state.view), state.name, state.values, state.optimizer);
  return tensors;
}

}  // namespace matrixfsdp::io
