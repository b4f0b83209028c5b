#include "apps/bench/page_html.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/bench/benchmark.hpp"
#include "apps/escaped.hpp"

namespace matrixfsdp::bench {
namespace {

using apps::escaped;

constexpr double width = 860;
constexpr double left = 330;
constexpr double right = 90;  // for the values behind bars
constexpr double line = 20;
constexpr Source sources[] = {Source::measured, Source::predicted, Source::published};

constexpr const char* head = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{0}</title>
<style>
:root {{ --paper: #ffffff; --ink: #1c1c1c; --faint: #6a6a6a; --rule: #d8d8d8;
  --measured: #1f6fb2; --predicted: #9cc3e4; --published: #d08a2e; }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: #16181b; --ink: #e6e6e6; --faint: #9a9a9a; --rule: #3a3d42;
  --measured: #5aa9e6; --predicted: #2f5f87; --published: #e0a458; }} }}
body {{ background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }}
h2 {{ border-top: 1px solid var(--rule); padding-top: 1rem; }}
.table {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 2px 8px; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }}
pre {{ overflow-x: auto; border: 1px solid var(--rule); padding: 6px 10px; font-size: 13px; }}
.small {{ color: var(--faint); font-size: 13px; }}
svg {{ max-width: 100%; height: auto; }}
svg text {{ fill: var(--ink); font: 12px system-ui, sans-serif; }}
.measured {{ fill: var(--measured); }} .predicted {{ fill: var(--predicted); }} .published {{ fill: var(--published); }}
</style></head><body>
<h1>{0}</h1>
)";

double shown(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

std::string text(double x, double y, std::string_view anchor, const std::string& value) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(value));
}

std::string box(double x, double y, double box_width, double height, Source source) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" class=\"{}\"/>\n", x, y,
                     box_width, height, name_of(source));
}

std::string legend(const Chart& chart) {
  std::string result;
  double x = left;
  for (const Source source : sources) {
    const bool occurs =
        std::any_of(chart.bars.begin(), chart.bars.end(), [&](const Bar& bar) { return bar.source == source; });
    if (!occurs) continue;
    result += box(x, 6, 10, 10, source) + text(x + 15, 15, "start", std::string(name_of(source)));
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
    result += text(left - 8, y + 13, "end", bar.label);
    result += box(left, y + 3, std::max(1.0, length), line - 6, bar.source);
    result += text(left + length + 6, y + 13, "start", fmt::format("{:.4g} {}", bar.value, chart.unit));
    y += line;
  }
  return result + "</svg>\n";
}

std::string to_table(const nlohmann::json& rows, const std::vector<std::string>& columns) {
  std::string result = "<div class=\"table\"><table>\n<tr>";
  for (const std::string& column : columns)
    result += fmt::format("<th>{}</th>", escaped(column));
  result += "</tr>\n";
  for (const nlohmann::json& row : rows) {
    result += "<tr>";
    for (const std::string& column : columns)
      result += fmt::format("<td>{}</td>", escaped(cell(row.value(column, nlohmann::json()))));
    result += "</tr>\n";
  }
  return result + "</table></div>\n";
}

std::string paragraph(const std::string& text) {
  return fmt::format("<p>{}</p>\n", escaped(text));
}

std::string to_page(const std::string& title, const std::string& body) {
  return fmt::format(fmt::runtime(head), escaped(title)) + body + "</body></html>\n";
}

}  // namespace matrixfsdp::bench
