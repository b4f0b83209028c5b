#include "apps/generate/source.hpp"

#include <algorithm>
#include <exception>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/manifest.hpp>

#include "apps/ckpt/locate.hpp"
#include "apps/train/first_rank.hpp"

namespace matrixfsdp::generate {
namespace {

using nlohmann::json;

bool any(const train::ShapeOverrides& given) {
  return std::max({given.layers, given.hidden, given.heads, given.kv_heads, given.ffn, given.sequence_length,
                   given.vocabulary}) > 0;
}

TransformerShape model_of(const json& configuration, const Command& command, const std::string& folder) {
  const bool told = !command.model.empty() || any(command.given);
  if (!configuration.contains("model")) {
    if (told) return train::resolve_shape(command.model.empty() ? "gpt2" : command.model, command.given);
    throw InputError(
        fmt::format("checkpoint '{}': does not say which model it is of; expected --model and its extents", folder));
  }
  if (told) {
    throw InputError(fmt::format(
        "{}: expected neither --model nor extents, because the checkpoint '{}' says what its model is",
        command.model.empty() ? "extents of a model" : fmt::format("--model '{}'", command.model), folder));
  }
  try {
    return train::shape_from_json(configuration.at("model"));
  } catch (const std::exception& error) {  // a field that is not there, or a shape that cannot be
    throw InputError(fmt::format("checkpoint '{}': training.configuration.model: {}", folder, error.what()));
  }
}

/// Checkpoints of runs that did not record it: by the names of their data.
bool text_by_data(const json& configuration) {
  const json data = configuration.value("data", json::array());
  return std::none_of(data.begin(), data.end(),
                      [](const json& name) { return name.is_string() && name.get<std::string>().ends_with(".bin"); });
}

bool is_text(const json& configuration, const TransformerShape& shape) {
  if (shape.vocabulary == 256) return true;
  if (!configuration.contains("data")) return false;
  const auto recorded = configuration.find("text");
  return recorded != configuration.end() && recorded->is_boolean() ? recorded->get<bool>()
                                                                   : text_by_data(configuration);
}

/// What rank 0 has found, for all ranks.
std::string shared(Communicator& communicator, const std::string& text) {
  const auto bytes =
      communicator.broadcast(Purpose::other, std::as_bytes(std::span(text)), 0, {"checkpoint to read", "", "start"});
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Source find_source(Communicator& communicator, const Command& command) {
  std::string found;
  train::on_first_rank(communicator, "CHECKPOINT", command.checkpoint, [&] {
    const std::string folder = ckpt::locate(command.checkpoint);
    const io::Manifest manifest = io::read_manifest(folder);
    found = json{{"folder", folder},
                 {"step", manifest.state.step},
                 {"seed", manifest.state.seed},
                 {"configuration", json::parse(manifest.state.configuration)}}
                .dump();
  });
  const json all = json::parse(shared(communicator, found));
  Source source;
  source.folder = all.at("folder");
  source.step = all.at("step");
  source.seed = command.seed.value_or(all.at("seed").get<std::uint64_t>());
  source.shape = model_of(all.at("configuration"), command, source.folder);
  source.is_text = command.is_text.value_or(is_text(all.at("configuration"), source.shape));
  return source;
}

}  // namespace matrixfsdp::generate
