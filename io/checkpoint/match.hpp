#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/schema/manifest.hpp>

#include "io/checkpoint/local_tensors.hpp"

namespace matrixfsdp::io {

/// Segments of each tensor, by (parameter, what). Points into the manifest.
using StoredTensors = std::map<std::pair<std::string_view, std::string_view>, std::vector<const StoredSegment*>>;
StoredTensors stored_tensors(const Manifest& manifest);

/// Throws InputError unless the checkpoint has the parameters of the model, no others, of the same shape, and the same
/// tied names.
void match_model(const ModelSpec& stored, const ModelSpec& model);

/// Throws InputError unless the checkpoint has, for each parameter of which this rank holds a part, the optimizer state
/// that this rank holds and no other, all in float32.
void match_state(const StoredTensors& stored, const std::vector<LocalTensor>& tensors);

}  // namespace matrixfsdp::io
