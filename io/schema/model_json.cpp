#include "io/schema/model_json.hpp"

#include <utility>

namespace matrixfsdp::io {
namespace {

Json to_json(const Initialization& initialization) {
  return {{"kind", std::string(name_of(initialization.kind))},
          {"standard_deviation", initialization.standard_deviation}};
}

Json to_json(const ParameterSpec& parameter) {
  const Blocks& blocks = parameter.blocks;
  return {{"name", parameter.name},
          {"shape", parameter.shape},
          {"kind", parameter.kind ? Json(std::string(name_of(*parameter.kind))) : Json()},
          {"embedding", parameter.embedding},
          {"frozen", parameter.frozen},
          {"group", parameter.group},
          {"blocks", {{"axis", blocks.axis}, {"names", blocks.names}, {"sizes", blocks.sizes}}},
          {"initialization", to_json(parameter.initialization)}};
}

Blocks read_blocks(const Json& value, const std::string& source, const std::string& path) {
  Fields fields(value, source, path);
  Blocks blocks;
  blocks.axis = static_cast<int>(fields.integer("axis", 0, 1));
  fields.each("names", [&](const Json& element, const std::string& at) {
    if (!element.is_string()) fields.fail(at, "not text", "text");
    blocks.names.push_back(element.get<std::string>());
  });
  blocks.sizes = fields.integers("sizes");
  fields.finish();
  return blocks;
}

Initialization read_initialization(const Json& value, const std::string& source, const std::string& path) {
  Fields fields(value, source, path);
  Initialization initialization;
  initialization.kind = fields.choice("kind", parse_initialization);
  initialization.standard_deviation = fields.number("standard_deviation");
  fields.finish();
  return initialization;
}

ParameterSpec read_parameter(const Json& value, const std::string& source, const std::string& path) {
  Fields fields(value, source, path);
  ParameterSpec parameter;
  parameter.name = fields.text("name");
  parameter.shape = fields.integers("shape");
  if (!fields.is_null("kind")) parameter.kind = fields.choice("kind", parse_parameter_kind);
  parameter.embedding = fields.boolean("embedding");
  parameter.frozen = fields.boolean("frozen");
  parameter.group = fields.text("group");
  parameter.blocks = read_blocks(fields.object("blocks"), source, fields.path_of("blocks"));
  parameter.initialization =
      read_initialization(fields.object("initialization"), source, fields.path_of("initialization"));
  fields.finish();
  return parameter;
}

UnitSpec read_unit(const Json& value, const std::string& source, const std::string& path) {
  Fields fields(value, source, path);
  UnitSpec unit;
  unit.name = fields.text("name");
  unit.keep = fields.boolean("keep");
  fields.each("parameters", [&](const Json& element, const std::string& at) {
    unit.parameters.push_back(read_parameter(element, source, at));
  });
  fields.finish();
  return unit;
}

ParameterGroup read_group(const Json& value, const std::string& source, const std::string& path) {
  Fields fields(value, source, path);
  ParameterGroup group;
  group.name = fields.text("name");
  group.learning_rate_scale = fields.number("learning_rate_scale");
  if (!fields.is_null("weight_decay")) group.weight_decay = fields.number("weight_decay");
  fields.finish();
  return group;
}

}  // namespace

Json model_to_json(const ModelSpec& model) {
  Json units = Json::array();
  for (const UnitSpec& unit : model.units) {
    Json parameters = Json::array();
    for (const ParameterSpec& parameter : unit.parameters)
      parameters.push_back(to_json(parameter));
    units.push_back({{"name", unit.name}, {"keep", unit.keep}, {"parameters", std::move(parameters)}});
  }
  Json tied = Json::array();
  for (const TiedParameter& alias : model.tied)
    tied.push_back({{"name", alias.name}, {"target", alias.target}});
  Json groups = Json::array();
  for (const ParameterGroup& group : model.groups) {
    groups.push_back({{"name", group.name},
                      {"learning_rate_scale", group.learning_rate_scale},
                      {"weight_decay", group.weight_decay ? Json(*group.weight_decay) : Json()}});
  }
  return {{"units", std::move(units)}, {"tied", std::move(tied)}, {"groups", std::move(groups)}};
}

ModelSpec model_from_json(const Json& value, const std::string& source, const std::string& path) {
  Fields fields(value, source, path);
  ModelSpec model;
  fields.each("units", [&](const Json& element, const std::string& at) {
    model.units.push_back(read_unit(element, source, at));
  });
  fields.each("tied", [&](const Json& element, const std::string& at) {
    Fields alias(element, source, at);
    model.tied.push_back({alias.text("name"), alias.text("target")});
    alias.finish();
  });
  fields.each("groups", [&](const Json& element, const std::string& at) {
    model.groups.push_back(read_group(element, source, at));
  });
  fields.finish();
  return model;
}

}  // namespace matrixfsdp::io
