#include "io/checkpoint/match.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {
namespace {

using ShapesByName = std::map<std::string_view, const Shape*>;
using StatesByName = std::map<std::string_view, std::set<std::string_view>>;

ShapesByName shapes_of(const ModelSpec& model) {
  ShapesByName shapes;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      shapes.emplace(parameter.name, &parameter.shape);
  }
  return shapes;
}

std::set<std::pair<std::string, std::string>> ties_of(const ModelSpec& model) {
  std::set<std::pair<std::string, std::string>> ties;
  for (const TiedParameter& alias : model.tied)
    ties.emplace(alias.name, alias.target);
  return ties;
}

/// A state must be kept by the same optimizer, with the same extents: those of Shampoo's blocks are an option's.
void match_kind(const StoredSegment& stored, const LocalTensor& tensor) {
  if (stored.optimizer != tensor.optimizer) {
    throw InputError(fmt::format("{} of '{}': is that of {} in the checkpoint; expected that of {}", tensor.what,
                                 tensor.spec->name, stored.optimizer, tensor.optimizer));
  }
  const Shape& theirs = stored.whole_shape(tensor.spec->shape);
  const Shape& ours = tensor.shape ? *tensor.shape : tensor.spec->shape;
  if (theirs != ours) {
    throw InputError(fmt::format("{} of '{}': shape {} in the checkpoint; expected {}, with this run's options",
                                 tensor.what, tensor.spec->name, to_string(theirs), to_string(ours)));
  }
}

std::string shown(const std::set<std::string_view>& states) {
  return states.empty() ? std::string("none") : fmt::format("{}", fmt::join(states, ", "));
}

}  // namespace

void match_model(const ModelSpec& stored, const ModelSpec& model) {
  const auto theirs = shapes_of(stored);
  const auto ours = shapes_of(model);
  for (const auto& [name, shape] : ours) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) {
      throw InputError(
          fmt::format("parameter '{}': missing in the checkpoint; expected shape {}", name, to_string(*shape)));
    }
    if (*found->second != *shape) {
      throw InputError(fmt::format("parameter '{}': shape {} in the checkpoint; expected {}", name,
                                   to_string(*found->second), to_string(*shape)));
    }
  }
  for (const auto& [name, shape] : theirs) {
    if (!ours.contains(name)) {
      throw InputError(fmt::format("parameter '{}' of shape {}: unexpected; this model has no such parameter", name,
                                   to_string(*shape)));
    }
  }
  const auto their_ties = ties_of(stored);
  const auto our_ties = ties_of(model);
  for (const auto& [name, target] : our_ties) {
    if (!their_ties.contains({name, target})) {
      throw InputError(
          fmt::format("parameter '{}': not tied to '{}' in the checkpoint, but in this model", name, target));
    }
  }
  for (const auto& [name, target] : their_ties) {
    if (!our_ties.contains({name, target})) {
      throw InputError(
          fmt::format("parameter '{}': tied to '{}' in the checkpoint, but not in this model", name, target));
    }
  }
}

void match_state(const StoredTensors& stored, const std::vector<LocalTensor>& tensors, bool states_too) {
  StatesByName ours;
  for (const LocalTensor& tensor : tensors) {
    auto& states = ours[tensor.spec->name];
    if (tensor.what != weight_name) states.insert(tensor.what);
  }
  StatesByName theirs;
  for (const auto& [tensor, segments] : stored) {
    const auto& [name, what] = tensor;
    if (what != weight_name && !states_too) continue;
    if (what != weight_name) theirs[name].insert(what);
    for (const StoredSegment* segment : segments) {
      if (segment->dtype != DType::float32 && ours.contains(name)) {
        throw InputError(
            fmt::format("{} of '{}': is {} in the checkpoint; expected float32", what, name, name_of(segment->dtype)));
      }
    }
  }
  for (const auto& [name, states] : ours) {
    if (theirs[name] != states) {
      throw InputError(
          fmt::format("optimizer state of '{}': the checkpoint has {}; expected {}, for this run's optimizer", name,
                      shown(theirs[name]), shown(states)));
    }
  }
  for (const LocalTensor& tensor : tensors) {
    if (tensor.what != weight_name) match_kind(*stored.at({tensor.spec->name, tensor.what}).front(), tensor);
  }
}

}  // namespace matrixfsdp::io
