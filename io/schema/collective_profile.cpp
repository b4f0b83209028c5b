#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/collective_profile.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::string_view format_name = "matrixfsdp collective profile";
constexpr std::int64_t version = 1;

Json to_json(const std::optional<LinkModel>& link) {
  if (!link) return nullptr;
  return {{"alpha_seconds", link->alpha_seconds},
          {"message_seconds", link->message_seconds},
          {"beta_seconds_per_byte", link->beta_seconds_per_byte},
          {"node_beta_seconds_per_byte", link->node_beta_seconds_per_byte},
          {"all_beta_seconds_per_byte", link->all_beta_seconds_per_byte},
          {"contention", link->contention}};
}

std::optional<LinkModel> read_link(Fields& profile, const char* key) {
  if (profile.is_null(key)) return std::nullopt;
  Fields fields(profile.object(key), profile.source(), key);
  LinkModel link;
  link.alpha_seconds = fields.number("alpha_seconds");
  link.message_seconds = fields.number("message_seconds");
  link.beta_seconds_per_byte = fields.number("beta_seconds_per_byte");
  link.node_beta_seconds_per_byte = fields.number("node_beta_seconds_per_byte");
  link.all_beta_seconds_per_byte = fields.number("all_beta_seconds_per_byte");
  link.contention = fields.number("contention");
  fields.finish();
  return link;
}

}  // namespace

std::string to_text(const CollectiveProfile& profile) {
  validate(profile);
  const Json value{{"format", std::string(format_name)}, {"format_version", version},
                   {"world_size", profile.world_size},   {"nodes", profile.nodes},
                   {"inside", to_json(profile.inside)},  {"between", to_json(profile.between)}};
  return dump(value, 1) + "\n";
}

CollectiveProfile parse_collective_profile(const std::string& text, const std::string& source) {
  const Json value = parse_json(text, source);
  Fields fields(value, source, "");
  const std::string format = fields.text("format");
  if (format != format_name) fields.fail("format", "\"" + format + "\"", fmt::format("\"{}\"", format_name));
  const std::int64_t found = fields.integer("format_version");
  if (found != version)
    fields.fail("format_version", std::to_string(found), fmt::format("{}, which this program reads", version));
  CollectiveProfile profile;
  profile.world_size = static_cast<int>(fields.integer("world_size", 1, 1 << 30));
  profile.nodes = static_cast<int>(fields.integer("nodes", 1, profile.world_size));
  profile.inside = read_link(fields, "inside");
  profile.between = read_link(fields, "between");
  fields.finish();
  try {
    validate(profile);
  } catch (const InputError& error) {
    throw IoError(fmt::format("'{}': {}", source, error.what()));
  }
  return profile;
}

CollectiveProfile read_collective_profile(const std::string& path) {
  return parse_collective_profile(read_text(path), path);
}

void write_collective_profile(const std::string& path, const CollectiveProfile& profile) {
  write_text_durably(path, to_text(profile));
}

}  // namespace matrixfsdp::io
