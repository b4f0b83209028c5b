#include "apps/page/line_chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "apps/escaped.hpp"
#include "apps/page/legend.hpp"
#include "apps/page/page.hpp"
#include "apps/page/scale.hpp"

namespace matrixfsdp::page {
namespace {

constexpr double width = 540;
constexpr double height = 260;
constexpr double left = 58;
constexpr double right = 14;
constexpr double top = 10;
constexpr double bottom = 38;
constexpr int places = 320;  // of a line's points, from left to right

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Something to draw in where all values are equal.
  void widen() {
    if (high > low) return;
    const double margin = low == 0 ? 1 : std::abs(low) * 0.05;
    low -= margin;
    high += margin;
  }
};

class Plot {
 public:
  Plot(Range x, Range y) : x_(x), y_(y) {}

  [[nodiscard]] double across(double x) const {
    return left + (width - left - right) * (x - x_.low) / (x_.high - x_.low);
  }
  [[nodiscard]] double down(double y) const {
    return top + (height - top - bottom) * (y_.high - y) / (y_.high - y_.low);
  }

  [[nodiscard]] std::string axes() const {
    std::string result;
    for (const double y : ticks(y_.low, y_.high, 5)) {
      result += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"grid\"/>\n", left,
                            down(y), width - right, down(y));
      result += svg_text(left - 6, down(y) + 4, "end", short_number(y));
    }
    for (const double x : ticks(x_.low, x_.high, 6)) {
      result += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n",
                            across(x), height - bottom, height - bottom + 4);
      result += svg_text(across(x), height - bottom + 17, "middle", short_number(x));
    }
    return result + svg_text((left + width - right) / 2, height - 4, "middle", "step");
  }

  /// Lines between neighbours, a dot for one that has none.
  [[nodiscard]] std::string line(const Line& line) const {
    std::string path;
    std::string dots;
    std::size_t run = 0;  // points since the last gap
    const std::vector<Point> points = thinned(line.points);
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!std::isfinite(points[i].y)) {
        run = 0;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", run == 0 ? "M" : "L", across(points[i].x), down(points[i].y));
      const bool ends = i + 1 == points.size() || !std::isfinite(points[i + 1].y);
      if (run == 0 && ends) dots += dot(points[i], line.color);
      ++run;
    }
    return fmt::format("<path d=\"{}\" class=\"line line-{}{}\"><title>{}</title></path>\n", path, line.color % colors,
                       line.dashed ? " dashed" : "", apps::escaped(line.name)) +
           dots;
  }

 private:
  [[nodiscard]] std::string dot(const Point& point, int color) const {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" class=\"color-{}\"/>\n", across(point.x),
                       down(point.y), color % colors);
  }

  [[nodiscard]] int place_of(double x) const {
    return static_cast<int>((x - x_.low) / (x_.high - x_.low) * (places - 1));
  }

  /// The smallest and the largest of each place, and one of its gaps, in their order.
  [[nodiscard]] std::vector<Point> thinned(const std::vector<Point>& points) const {
    if (points.size() <= 2U * places) return points;
    std::vector<Point> result;
    for (std::size_t begin = 0; begin < points.size();) {
      std::size_t end = begin + 1;
      while (end < points.size() && place_of(points[end].x) == place_of(points[begin].x))
        ++end;
      for (const std::size_t i : telling(points, begin, end))
        result.push_back(points[i]);
      begin = end;
    }
    return result;
  }

  static std::set<std::size_t> telling(const std::vector<Point>& points, std::size_t begin, std::size_t end) {
    std::optional<std::size_t> low;
    std::optional<std::size_t> high;
    std::optional<std::size_t> gap;
    for (std::size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].y)) {
        gap = i;
        continue;
      }
      if (!low || points[i].y < points[*low].y) low = i;
      if (!high || points[i].y > points[*high].y) high = i;
    }
    std::set<std::size_t> all;
    for (const auto& one : {low, high, gap}) {
      if (one) all.insert(*one);
    }
    return all;
  }

  Range x_;
  Range y_;
};

std::string legend(const std::vector<Line>& lines) {
  if (lines.size() == 1 && !lines.front().dashed) return "";
  std::vector<LegendEntry> entries;
  entries.reserve(lines.size());
  for (const Line& line : lines)
    entries.push_back({line.name, line.color, true, line.dashed});
  return to_legend(entries);
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  Range x;
  Range y;
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) {
      if (!std::isfinite(point.y)) continue;
      x.add(point.x);
      y.add(point.y);
    }
  }
  if (!(x.low <= x.high)) return "";
  if (chart.from_zero) y.add(0);
  x.widen();
  y.widen();
  const Plot plot(x, y);
  const std::string title = chart.unit.empty() ? chart.title : fmt::format("{} ({})", chart.title, chart.unit);
  std::string result = fmt::format(
      "<figure><figcaption>{0}</figcaption>\n{1}<svg viewBox=\"0 0 {2:.0f} {3:.0f}\" width=\"{2:.0f}\" role=\"img\" "
      "aria-label=\"{0}\">\n",
      apps::escaped(title), legend(chart.lines), width, height);
  result += plot.axes();
  for (const Line& line : chart.lines)
    result += plot.line(line);
  return result + "</svg></figure>\n";
}

}  // namespace matrixfsdp::page
