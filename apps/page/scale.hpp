#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace matrixfsdp::page {

/// Round values (1, 2 or 5 times a power of ten apart) in [low, high], about `wanted` of them; the two ends where they
/// are equal or not finite.
std::vector<double> ticks(double low, double high, int wanted);

/// Four digits at most, with k, M, G, T, P for thousands: "1.25k", "0.0002", "-3".
std::string short_number(double value);

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
