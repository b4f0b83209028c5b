#include "apps/page/page.hpp"

#include <fmt/format.h>

#include "apps/escaped.hpp"

namespace matrixfsdp::page {
namespace {

using apps::escaped;

constexpr const char* head = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{0}</title>
<style>
:root {{ --paper: #ffffff; --ink: #1c1c1c; --faint: #6a6a6a; --rule: #d8d8d8; }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: #16181b; --ink: #e6e6e6; --faint: #9a9a9a; --rule: #3a3d42; }} }}
body {{ background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }}
h2 {{ border-top: 1px solid var(--rule); padding-top: 1rem; }}
.table {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }}
th, td {{ padding: 2px 8px; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }}
pre {{ overflow-x: auto; border: 1px solid var(--rule); padding: 6px 10px; font-size: 13px; }}
summary {{ cursor: pointer; }}
.small {{ color: var(--faint); font-size: 13px; }}
svg {{ max-width: 100%; height: auto; }}
svg text {{ fill: var(--ink); font: 12px system-ui, sans-serif; }}
{1}</style></head><body>
<h1>{0}</h1>
)";

}  // namespace

std::string paragraph(const std::string& text) {
  return fmt::format("<p>{}</p>\n", escaped(text));
}

std::string to_table(const std::vector<std::string>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::string result = "<div class=\"table\"><table>\n<tr>";
  for (const std::string& column : columns)
    result += fmt::format("<th>{}</th>", escaped(column));
  result += "</tr>\n";
  for (const std::vector<std::string>& row : rows) {
    result += "<tr>";
    for (const std::string& cell : row)
      result += fmt::format("<td>{}</td>", escaped(cell));
    result += "</tr>\n";
  }
  return result + "</table></div>\n";
}

std::string details(const std::string& summary, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escaped(summary), body);
}

std::string svg_text(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string svg_box(double x, double y, double width, double height, std::string_view color) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" class=\"{}\"/>\n", x, y, width,
                     height, color);
}

std::string to_page(const std::string& title, std::string_view style, const std::string& body) {
  return fmt::format(fmt::runtime(head), escaped(title), style) + body + "</body></html>\n";
}

}  // namespace matrixfsdp::page
