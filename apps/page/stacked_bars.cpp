#include "apps/page/stacked_bars.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/escaped.hpp"
#include "apps/page/legend.hpp"
#include "apps/page/page.hpp"
#include "apps/page/scale.hpp"

namespace matrixfsdp::page {
namespace {

constexpr double width = 540;
constexpr double left = 130;
constexpr double right = 76;  // for the sums behind bars
constexpr double line = 20;
constexpr std::size_t longest_label = 20;

double shown(double value) {
  return std::isfinite(value) && value > 0 ? value : 0;
}

double sum_of(const StackedBar& bar) {
  double sum = 0;
  for (const double value : bar.values)
    sum += shown(value);
  return sum;
}

std::string legend(const StackedBars& chart) {
  std::vector<LegendEntry> entries;
  for (std::size_t part = 0; part < chart.parts.size(); ++part) {
    const bool occurs = std::any_of(chart.bars.begin(), chart.bars.end(),
                                    [part](const StackedBar& bar) { return shown(bar.values.at(part)) > 0; });
    if (occurs) entries.push_back({chart.parts[part], static_cast<int>(part)});
  }
  return to_legend(entries);
}

/// The end of a label that has no room tells more than its beginning. No letter of UTF-8 is cut in two.
std::string label_of(const StackedBar& bar) {
  if (bar.label.size() <= longest_label) return bar.label;
  std::size_t begin = bar.label.size() - longest_label + 3;
  while (begin < bar.label.size() && (static_cast<unsigned char>(bar.label[begin]) & 0xc0U) == 0x80U)
    ++begin;
  return "..." + bar.label.substr(begin);
}

std::string drawn(const StackedBars& chart, const StackedBar& bar, double y, double most) {
  std::string result = svg_text(left - 8, y + 14, "end", label_of(bar));
  double x = left;
  for (std::size_t part = 0; part < chart.parts.size(); ++part) {
    const double value = shown(bar.values[part]);
    const double length = most > 0 ? (width - left - right) * value / most : 0;
    if (length <= 0) continue;
    result += fmt::format("<g><title>{}: {} {} {}</title>{}</g>\n", apps::escaped(bar.label),
                          apps::escaped(chart.parts[part]), short_number(value), apps::escaped(chart.unit),
                          svg_box(x, y + 3, length, line - 6, fmt::format("color-{}", part % colors)));
    x += length;
  }
  return result + svg_text(x + 6, y + 14, "start", fmt::format("{} {}", short_number(sum_of(bar)), chart.unit));
}

}  // namespace

std::string to_svg(const StackedBars& chart) {
  if (chart.bars.empty()) return "";
  double most = 0;
  for (const StackedBar& bar : chart.bars)
    most = std::max(most, sum_of(bar));
  const double height = line * static_cast<double>(chart.bars.size()) + 4;
  std::string result = fmt::format(
      "<figure><figcaption>{0}</figcaption>\n{1}<svg viewBox=\"0 0 {2:.0f} {3:.0f}\" width=\"{2:.0f}\" role=\"img\" "
      "aria-label=\"{0}\">\n",
      apps::escaped(chart.title), legend(chart), width, height);
  double y = 0;
  for (const StackedBar& bar : chart.bars) {
    result += drawn(chart, bar, y, most);
    y += line;
  }
  return result + "</svg></figure>\n";
}

}  // namespace matrixfsdp::page
