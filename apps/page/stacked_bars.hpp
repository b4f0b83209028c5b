#pragma once

#include <string>
#include <vector>

namespace matrixfsdp::page {

struct StackedBar {
  std::string label;
  std::vector<double> values;  ///< one for each part
};

struct StackedBars {
  std::string title;
  std::string unit;
  std::vector<std::string> parts;  ///< names, in the order in which they are drawn and colored
  std::vector<StackedBar> bars;
};

/// A figure of inline SVG: a line for each bar, all from 0 on one scale, with their sums, and a legend of the parts
/// that occur. Values that are negative or not finite count as 0. Empty without bars.
std::string to_svg(const StackedBars& chart);

}  // namespace matrixfsdp::page
