#pragma once

#include <string>
#include <string_view>
#include <vector>

/// The colors of series, and what says whose they are.
namespace matrixfsdp::page {

/// The classes color-0 to color-7 (fill), line-0 to line-7 (stroke), for light and dark, and what legends need.
std::string_view color_style();
inline constexpr int colors = 8;

struct LegendEntry {
  std::string name;
  int color = 0;
  bool stroke = false;  ///< of a line, else of an area
  bool dashed = false;
};

/// A line of HTML that says what colors mean.
std::string to_legend(const std::vector<LegendEntry>& entries);

}  // namespace matrixfsdp::page
