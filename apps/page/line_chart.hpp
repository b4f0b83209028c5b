#pragma once

#include <string>
#include <vector>

namespace matrixfsdp::page {

struct Point {
  double x = 0;
  double y = 0;  ///< not finite: a gap
};

struct Line {
  std::string name;
  int color = 0;
  bool dashed = false;
  std::vector<Point> points;  ///< by x
};

struct LineChart {
  std::string title;
  std::string unit;  ///< of y; empty: none
  std::vector<Line> lines;
  bool from_zero = false;  ///< y begins at 0
};

/// A figure of inline SVG over steps, with a legend where there are several lines or a dashed one. Of many points it
/// draws the smallest and the largest of each place, so that the size does not grow with the run, and no peak is lost.
/// Empty without a finite point.
std::string to_svg(const LineChart& chart);

}  // namespace matrixfsdp::page
