#include "apps/train/model_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {

void add_model_options(apps::OptionReader& reader, std::string& model, ShapeOverrides& given) {
  reader.text("--model",
              "gpt2 or llama with the extents below, or a catalogue name: " +
                  fmt::format("{}", fmt::join(transformer_names(), ", ")),
              model, [&model](const std::string& value) { model = value; });
  const auto extent = [&reader](const std::string& name, std::int64_t& target, const std::string& help) {
    reader.integer(name, target, 1, help)->default_str(target > 0 ? std::to_string(target) : "");
  };
  extent("--layers", given.layers, "Transformer blocks");
  extent("--hidden", given.hidden, "Width");
  extent("--heads", given.heads, "Attention heads; they divide --hidden");
  extent("--kv-heads", given.kv_heads, "Key and value heads (llama)");
  extent("--ffn", given.ffn, "Inner width of the feed-forward part");
  extent("--seq-len", given.sequence_length, "Tokens per sequence");
  extent("--vocab-size", given.vocabulary, "Token ids; at least 256 for text");
}

TransformerShape resolve_shape(const std::string& model, const ShapeOverrides& given) {
  const bool bare = model == "gpt2" || model == "llama";
  TransformerShape shape;
  if (bare) {
    shape.style = model == "gpt2" ? TransformerStyle::gpt2 : TransformerStyle::llama;
    shape.layers = 4;
    shape.hidden = 128;
    shape.heads = 4;
    shape.sequence_length = 128;
    shape.vocabulary = 256;
    shape.tied_head = shape.style == TransformerStyle::gpt2;
  } else {
    shape = transformer_from_name(model);
  }
  const auto override_with = [](std::int64_t& target, std::int64_t value) {
    if (value > 0) target = value;
  };
  override_with(shape.layers, given.layers);
  override_with(shape.hidden, given.hidden);
  override_with(shape.heads, given.heads);
  if (bare || shape.style == TransformerStyle::gpt2) shape.kv_heads = shape.heads;
  if (bare) shape.ffn = 4 * shape.hidden;
  override_with(shape.kv_heads, given.kv_heads);
  override_with(shape.ffn, given.ffn);
  override_with(shape.sequence_length, given.sequence_length);
  override_with(shape.vocabulary, given.vocabulary);
  validate(shape);
  return shape;
}

nlohmann::json to_json(const TransformerShape& shape) {
  return {{"style", name_of(shape.style)},
          {"layers", shape.layers},
          {"hidden", shape.hidden},
          {"heads", shape.heads},
          {"kv_heads", shape.kv_heads},
          {"ffn", shape.ffn},
          {"sequence_length", shape.sequence_length},
          {"vocabulary", shape.vocabulary},
          {"tied_head", shape.tied_head}};
}

TransformerShape shape_from_json(const nlohmann::json& model) {
  const auto style = model.at("style").get<std::string>();
  TransformerShape shape;
  if (style == name_of(TransformerStyle::llama)) {
    shape.style = TransformerStyle::llama;
  } else if (style != name_of(TransformerStyle::gpt2)) {
    throw InputError(fmt::format("style '{}': expected gpt2 or llama", style));
  }
  model.at("layers").get_to(shape.layers);
  model.at("hidden").get_to(shape.hidden);
  model.at("heads").get_to(shape.heads);
  model.at("kv_heads").get_to(shape.kv_heads);
  model.at("ffn").get_to(shape.ffn);
  model.at("sequence_length").get_to(shape.sequence_length);
  model.at("vocabulary").get_to(shape.vocabulary);
  model.at("tied_head").get_to(shape.tied_head);
  validate(shape);
  return shape;
}

}  // namespace matrixfsdp::train
