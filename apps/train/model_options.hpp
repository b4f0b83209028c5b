#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include <matrixfsdp/plan/transformer.hpp>

#include "apps/option_reader.hpp"

namespace matrixfsdp::train {

/// Extents as given; 0 where not given, so that the catalogue's or the defaults' value stays.
struct ShapeOverrides {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn = 0;
  std::int64_t sequence_length = 0;
  std::int64_t vocabulary = 0;
};

/// --model and the extents, each an integer of at least 1. Both must outlive the app.
void add_model_options(apps::OptionReader& reader, std::string& model, ShapeOverrides& given);

/// A catalogue name, or a bare style: then a small model of that style over bytes, changed by the extents given. Throws
/// InputError for another name, and as validate does.
TransformerShape resolve_shape(const std::string& model, const ShapeOverrides& given);

/// As checkpoints and metrics record it.
nlohmann::json to_json(const TransformerShape& shape);

/// Inverse. Throws nlohmann::json::exception for a field that is not there or of another type, InputError for an unknown
/// style, and as validate does.
TransformerShape shape_from_json(const nlohmann::json& model);

}  // namespace matrixfsdp::train
