#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "apps/escaped.hpp"
#include "apps/page/owner_map.hpp"
#include "apps/page/page.hpp"
#include "apps/report/sections.hpp"

namespace matrixfsdp::report {
namespace {

using nlohmann::json;

constexpr std::size_t most_listed = 1000;

bool is_owner(const json& owner, std::size_t units, std::size_t ranks) {
  const auto whole = [&owner](const char* key, std::size_t end) {
    return owner.contains(key) && owner[key].is_number_unsigned() && owner[key].get<std::size_t>() < end;
  };
  return owner.is_object() && whole("unit", units) && whole("rank", ranks) && owner.contains("elements") &&
         owner["elements"].is_number() && owner.contains("matrix") && owner["matrix"].is_string();
}

/// Without units where the header has no map.
page::OwnerMap map_of(const json& header) {
  page::OwnerMap map;
  if (!header.is_object()) return map;
  const json size = header.value("shard_size", json());
  const json units = header.value("units", json::array());
  const json owners = header.value("owners", json::array());
  if (!size.is_number_unsigned() || !units.is_array() || !owners.is_array() || owners.empty()) return map;
  map.ranks = std::max<std::size_t>(1, size.get<std::size_t>());
  for (const json& unit : units)
    map.units.push_back(unit.is_string() ? unit.get<std::string>() : unit.dump());
  for (const json& owner : owners) {
    if (is_owner(owner, map.units.size(), map.ranks))
      map.matrices.push_back({owner["unit"], owner["rank"], owner["elements"]});
  }
  return map;
}

std::string list_of(const json& header, const page::OwnerMap& map) {
  std::vector<std::vector<std::string>> rows;
  for (const json& owner : header["owners"]) {
    if (rows.size() == most_listed) break;
    if (!is_owner(owner, map.units.size(), map.ranks)) continue;
    rows.push_back({owner["matrix"].get<std::string>(), owner["rank"].dump(), owner["elements"].dump()});
  }
  const std::string title = rows.size() < map.matrices.size()
                                ? fmt::format("The first {} of {} matrices", rows.size(), map.matrices.size())
                                : fmt::format("All {} matrices", rows.size());
  return page::details(title, page::to_table({"matrix", "owner", "elements"}, rows));
}

std::string picture_of(const RunFile& run) {
  const page::OwnerMap map = map_of(run.header);
  if (map.units.empty()) return "";
  constexpr double page_width = 1080;
  constexpr double labels = 150;
  const double cell =
      std::clamp((page_width - labels) / static_cast<double>(std::min<std::size_t>(map.ranks, 64)), 12.0, 48.0);
  const page::OwnerPicture picture = page::draw_owners(map, 2, {cell, 18});
  return fmt::format(
      "<h3>{0}</h3>\n<svg viewBox=\"0 0 {2:.0f} {3:.0f}\" width=\"{2:.0f}\" role=\"img\" "
      "aria-label=\"owners of {1}\">\n{4}</svg>\n{5}",
      apps::escaped(fmt::format("{}: planner {}, {} ranks that share the model", run.name,
                                text_of(at(run.header, "planner")), map.ranks)),
      apps::escaped(run.name), std::max(picture.width + 20, labels + 120), picture.end, picture.svg,
      list_of(run.header, map));
}

}  // namespace

std::string owner_maps(const Runs& runs) {
  std::string pictures;
  for (const RunFile& run : runs)
    pictures += picture_of(run);
  if (pictures.empty()) return "";
  return "<h2>Who owns which matrix</h2>\n" +
         page::paragraph(
             "A row for each unit, a column for each rank; the more elements, the stronger the color. "
             "Everything else (norms, biases, embeddings) is spread over all ranks.") +
         pictures;
}

}  // namespace matrixfsdp::report
