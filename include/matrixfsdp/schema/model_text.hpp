#pragma once

#include <string>

#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp::io {

/// A model specification as one line of JSON: the field "model" of a manifest.
std::string to_text(const ModelSpec& model);

/// Inverse, strict. Throws IoError naming the field, and where the model is not valid (see validate).
ModelSpec parse_model(const std::string& text, const std::string& source);

}  // namespace matrixfsdp::io
