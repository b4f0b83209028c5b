#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/optimizer_profile.hpp>

#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {
namespace {

constexpr const char* key = "optimizer_profile";

MeasuredWork read_measured(const Json& element, const std::string& source, const std::string& path, int world_size) {
  Fields fields(element, source, path);
  MeasuredWork one;
  one.rank = static_cast<int>(fields.integer("rank", 0, world_size - 1));
  one.work.rows = fields.integer("rows", 1);
  one.work.cols = fields.integer("cols", 1);
  one.work.parts = fields.integer("parts", 1);
  one.steps = fields.integer("steps", 1);
  one.seconds = fields.number("seconds");
  fields.finish();
  return one;
}

OptimizerProfile read_profile(const Json& object, const std::string& source) {
  Fields fields(object, source, key);
  OptimizerProfile profile;
  profile.world_size = static_cast<int>(fields.integer("world_size", 1, std::numeric_limits<int>::max()));
  fields.each("measured", [&](const Json& element, const std::string& path) {
    profile.measured.push_back(read_measured(element, source, path, profile.world_size));
  });
  fields.finish();
  require_valid(profile, source);
  return profile;
}

}  // namespace

std::string to_text(const OptimizerProfile& profile) {
  validate(profile);
  Json measured = Json::array();
  for (const MeasuredWork& one : profile.measured) {
    measured.push_back({{"rank", one.rank},
                        {"rows", one.work.rows},
                        {"cols", one.work.cols},
                        {"parts", one.work.parts},
                        {"steps", one.steps},
                        {"seconds", one.seconds}});
  }
  return dump({{"world_size", profile.world_size}, {"measured", measured}}, -1);
}

OptimizerProfile parse_optimizer_profile(const std::string& lines, const std::string& source) {
  std::istringstream stream(lines);
  std::optional<OptimizerProfile> found;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find(key) == std::string::npos) continue;
    const std::string place = fmt::format("{}:{}", source, number);
    const Json value = parse_json(line, place);
    if (value.is_object() && value.contains(key)) found = read_profile(value.at(key), place);
  }
  if (!found) {
    throw IoError(
        fmt::format("'{}': {} lines without \"{}\": expected the metrics of a finished run with a matrix "
                    "optimizer",
                    source, number, key));
  }
  return *found;
}

OptimizerProfile read_optimizer_profile(const std::string& path) {
  return parse_optimizer_profile(read_text(path), path);
}

}  // namespace matrixfsdp::io
