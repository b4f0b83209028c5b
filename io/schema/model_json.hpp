#pragma once

#include <string>

#include <matrixfsdp/plan/model_spec.hpp>

#include "io/schema/fields.hpp"

namespace matrixfsdp::io {

/// Every field of a model specification.
Json model_to_json(const ModelSpec& model);

/// Inverse. Throws IoError naming the field; what only `validate` can see (names, sums of blocks) is left to it.
ModelSpec model_from_json(const Json& value, const std::string& source, const std::string& path);

}  // namespace matrixfsdp::io
