#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/manifest.hpp>

#include "io/schema/manifest_json.hpp"
#include "io/schema/model_json.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::string_view checksum_field = "\"manifest_checksum\": \"";
constexpr std::size_t digits = 16;

/// Checksum of the text with zeros where the checksum's digits are.
std::uint64_t checksum_of_manifest(std::string text, std::size_t position) {
  text.replace(position, digits, digits, '0');
  return checksum_of(std::as_bytes(std::span(text)));
}

void verify_checksum(const std::string& text, std::uint64_t stored, const std::string& source) {
  const std::size_t field = text.find(checksum_field);
  const bool found = field != std::string::npos && field + checksum_field.size() + digits <= text.size();
  if (!found || checksum_of_manifest(text, field + checksum_field.size()) != stored) {
    throw IoError(
        fmt::format("'{}': is damaged or was edited: its text does not have the checksum {} that it states; expected a "
                    "manifest as it was written",
                    source, checksum_text(stored)));
  }
}

Json to_json(const TrainingState& state) {
  return {{"step", state.step},
          {"optimizer_steps", state.optimizer_steps},
          {"loss", state.loss ? Json(*state.loss) : Json()},
          {"random", {{"seed", state.seed}}},
          {"data", {{"next_step", state.data_step}}},
          {"sum_group", state.sum_group},
          {"schedule", parse_json(state.schedule, "schedule")},
          {"configuration", parse_json(state.configuration, "configuration")}};
}

TrainingState read_state(const Json& value, const std::string& source) {
  Fields fields(value, source, "training");
  TrainingState state;
  state.step = fields.integer("step", 0);
  state.optimizer_steps = fields.integer("optimizer_steps", 0, state.step);
  if (!fields.is_null("loss")) state.loss = fields.number("loss");
  Fields random(fields.object("random"), source, "training.random");
  state.seed = random.unsigned_integer("seed");
  random.finish();
  Fields data(fields.object("data"), source, "training.data");
  state.data_step = data.integer("next_step", 0);
  data.finish();
  state.sum_group = fields.integer("sum_group", 1);
  state.schedule = fields.object("schedule").dump();
  state.configuration = fields.object("configuration").dump();
  fields.finish();
  return state;
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  validate(manifest, std::string(manifest_name));
  const Json value{
      {"format", std::string(checkpoint_format)},
      {"format_version", format_version},
      {"manifest_checksum", std::string(digits, '0')},
      {"training", to_json(manifest.state)},
      {"plan",
       {{"planner", manifest.planner}, {"world_size", manifest.world_size}, {"replicated", manifest.replicated}}},
      {"files", to_json(manifest.files)},
      {"segments", to_json(manifest.segments)},
      {"model", model_to_json(manifest.model)}};
  std::string text = dump(value, 1) + "\n";
  const std::size_t position = text.find(checksum_field) + checksum_field.size();
  text.replace(position, digits, checksum_text(checksum_of_manifest(text, position)));
  return text;
}

Manifest parse_manifest(const std::string& text, const std::string& source) {
  const Json value = parse_json(text, source);
  Fields fields(value, source, "");
  fields.require_format(checkpoint_format, format_version);
  verify_checksum(text, fields.checksum("manifest_checksum"), source);
  Manifest manifest;
  manifest.state = read_state(fields.object("training"), source);
  Fields plan(fields.object("plan"), source, "plan");
  manifest.planner = plan.text("planner");
  manifest.world_size = static_cast<int>(plan.integer("world_size", 1, 1 << 30));
  manifest.replicated = plan.boolean("replicated");
  plan.finish();
  manifest.files = read_files(fields);
  manifest.segments = read_segments(fields);
  manifest.model = model_from_json(fields.object("model"), source, "model");
  fields.finish();
  validate(manifest, source);
  return manifest;
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, manifest_name);
  return parse_manifest(read_text(path), path);
}

}  // namespace matrixfsdp::io
