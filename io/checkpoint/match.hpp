#pragma once

#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>

#include "io/checkpoint/local_tensors.hpp"

namespace matrixfsdp::io {

/// Throws InputError unless the checkpoint has the parameters of the model, no others, of the same shape, and the same
/// tied names.
void match_model(const ModelSpec& stored, const ModelSpec& model);

/// Throws InputError unless the checkpoint has, for each parameter of which this rank holds a part, the optimizer state
/// that this rank holds and no other (whatever state, without `states_too`), all in float32.
void match_state(const StoredTensors& stored, const std::vector<LocalTensor>& tensors, bool states_too);

}  // namespace matrixfsdp::io
