#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/model_text.hpp>

#include "io/schema/manifest_json.hpp"
#include "io/schema/model_json.hpp"

namespace matrixfsdp::io {

std::string to_text(const ModelSpec& model) {
  return dump(model_to_json(model), -1);
}

ModelSpec parse_model(const std::string& text, const std::string& source) {
  ModelSpec model = model_from_json(parse_json(text, source), source, "");
  try {
    validate(model);
  } catch (const InputError& error) {
    throw IoError(fmt::format("'{}': {}", source, error.what()));
  }
  return model;
}

}  // namespace matrixfsdp::io
