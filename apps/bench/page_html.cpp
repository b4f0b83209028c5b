#include "apps/bench/page_html.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/bench/benchmark.hpp"
#include "apps/escaped.hpp"
#include "apps/page/page.hpp"

namespace matrixfsdp::bench {
namespace {

using apps::escaped;
using page::svg_box;
using page::svg_text;

constexpr double width = 860;
constexpr double left = 330;
constexpr double right = 90;  // for the values behind bars
constexpr double line = 20;
constexpr Source sources[] = {Source::measured, Source::predicted, Source::published};

constexpr std::string_view style =
    R"(:root { --measured: #1f6fb2; --predicted: #9cc3e4; --published: #d08a2e; }
@media (prefers-color-scheme: dark) { :root { --measured: #5aa9e6; --predicted: #2f5f87; --published: #e0a458; } }
.measured { fill: var(--measured); } .predicted { fill: var(--predicted); } .published { fill: var(--published); }
)";

double shown(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

std::string legend(const Chart& chart) {
  std::string result;
  double x = left;
  for (const Source source : sources) {
    const bool occurs =
        std::any_of(chart.bars.begin(), chart.bars.end(), [&](const Bar& bar) { return bar.source == source; });
    if (!occurs) continue;
    result += svg_box(x, 6, 10, 10, name_of(source)) + svg_text(x + 15, 15, "start", std::string(name_of(source)));
    x += 110;
  }
  return result;
}

}  // namespace

std::string_view name_of(Source source) {
  switch (source) {
    case Source::measured:
      return "measured";
    case Source::predicted:
      return "predicted";
    default:
      return "published";
  }
}

std::string to_svg(const Chart& chart) {
  if (chart.bars.empty()) return "";
  double most = 0;
  for (const Bar& bar : chart.bars)
    most = std::max(most, shown(bar.value));
  const double height = line * (static_cast<double>(chart.bars.size()) + 1.5);
  std::string result =
      fmt::format("<h3>{}</h3>\n<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n",
                  escaped(chart.title), width, height, width, escaped(chart.title));
  result += legend(chart);
  double y = 1.5 * line;
  for (const Bar& bar : chart.bars) {
    const double length = most > 0 ? (width - left - right) * shown(bar.value) / most : 0;
    result += svg_text(left - 8, y + 13, "end", bar.label);
    result += svg_box(left, y + 3, std::max(1.0, length), line - 6, name_of(bar.source));
    result += svg_text(left + length + 6, y + 13, "start", fmt::format("{:.4g} {}", bar.value, chart.unit));
    y += line;
  }
  return result + "</svg>\n";
}

std::string to_table(const nlohmann::json& rows, const std::vector<std::string>& columns) {
  std::vector<std::vector<std::string>> cells;
  for (const nlohmann::json& row : rows) {
    cells.emplace_back();
    for (const std::string& column : columns)
      cells.back().push_back(cell(row.value(column, nlohmann::json())));
  }
  return page::to_table(columns, cells);
}

std::string to_page(const std::string& title, const std::string& body) {
  return page::to_page(title, style, body);
}

}  // namespace matrixfsdp::bench
