#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>

#include <matrixfsdp/schema/manifest.hpp>

#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {

std::string to_text(const ManifestPart& part) {
  return dump({{"files", to_json(part.files)}, {"segments", to_json(part.segments)}}, -1);
}

ManifestPart parse_manifest_part(const std::string& text) {
  const std::string source = "part of the manifest";
  const Json value = parse_json(text, source);
  Fields fields(value, source, "");
  ManifestPart part{read_files(fields), read_segments(fields)};
  fields.finish();
  return part;
}

void add_parts(Manifest& manifest, const std::vector<ManifestPart>& parts) {
  for (const ManifestPart& part : parts) {
    manifest.files.insert(manifest.files.end(), part.files.begin(), part.files.end());
    manifest.segments.insert(manifest.segments.end(), part.segments.begin(), part.segments.end());
  }
  std::map<std::string_view, std::size_t> order;
  for (const UnitSpec& unit : manifest.model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      order.emplace(parameter.name, order.size());
  }
  const auto key = [&](const StoredSegment& segment) {
    const auto place = order.find(segment.parameter);
    const bool state = segment.what != weight_name;
    return std::tuple(place == order.end() ? order.size() : place->second, state, std::string_view(segment.what),
                      segment.elements.begin, segment.elements.end);
  };
  std::stable_sort(manifest.segments.begin(), manifest.segments.end(),
                   [&](const StoredSegment& a, const StoredSegment& b) { return key(a) < key(b); });
}

}  // namespace matrixfsdp::io
