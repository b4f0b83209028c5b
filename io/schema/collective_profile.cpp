#include <string_view>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/collective_profile.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::string_view format_name = "matrixfsdp collective profile";
constexpr std::int64_t version = 2;

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

Json to_json(const std::vector<CollectiveCorrection>& corrections) {
  Json list = Json::array();
  for (const CollectiveCorrection& correction : corrections) {
    list.push_back({{"operation", std::string(name_of(correction.operation))},
                    {"algorithm", std::string(name_of(correction.algorithm))},
                    {"one_owner", correction.one_owner},
                    {"bytes", correction.bytes},
                    {"factor", correction.factor}});
  }
  return list;
}

CollectiveCorrection read_correction(const Json& element, const std::string& source, const std::string& path) {
  Fields fields(element, source, path);
  CollectiveCorrection correction;
  correction.operation = fields.choice("operation", parse_collective_operation);
  correction.algorithm = fields.choice("algorithm", parse_collective);
  correction.one_owner = fields.boolean("one_owner");
  correction.bytes = fields.integer("bytes", 1);
  correction.factor = fields.number("factor");
  fields.finish();
  return correction;
}

}  // namespace

std::string to_text(const CollectiveProfile& profile) {
  validate(profile);
  const Json value{{"format", std::string(format_name)},         {"format_version", version},
                   {"world_size", profile.world_size},           {"nodes", profile.nodes},
                   {"inside", to_json(profile.inside)},          {"between", to_json(profile.between)},
                   {"corrections", to_json(profile.corrections)}};
  return dump(value, 1) + "\n";
}

CollectiveProfile parse_collective_profile(const std::string& text, const std::string& source) {
  const Json value = parse_json(text, source);
  Fields fields(value, source, "");
  fields.require_format(format_name, version);
  CollectiveProfile profile;
  profile.world_size = static_cast<int>(fields.integer("world_size", 1, 1 << 30));
  profile.nodes = static_cast<int>(fields.integer("nodes", 1, profile.world_size));
  profile.inside = read_link(fields, "inside");
  profile.between = read_link(fields, "between");
  fields.each("corrections", [&](const Json& element, const std::string& path) {
    profile.corrections.push_back(read_correction(element, source, path));
  });
  fields.finish();
  require_valid(profile, source);
  return profile;
}

CollectiveProfile read_collective_profile(const std::string& path) {
  return parse_collective_profile(read_text(path), path);
}

void write_collective_profile(const std::string& path, const CollectiveProfile& profile) {
  write_text_durably(path, to_text(profile));
}

}  // namespace matrixfsdp::io
