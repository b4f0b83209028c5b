#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

/// Pieces of the page of results, beside those of every page (apps/page/page.hpp).
namespace matrixfsdp::bench {

/// Whose figure a bar is; bars of a chart have the colors of these.
enum class Source { measured, predicted, published };
std::string_view name_of(Source source);

struct Bar {
  std::string label;
  Source source = Source::measured;
  double value = 0;
};

struct Chart {
  std::string title;
  std::string unit;
  std::vector<Bar> bars;
};

/// Inline SVG: a line for each bar, all from 0 on one scale, each with its value; a legend of the sources that occur.
/// Empty for a chart without bars. Values that are negative or not finite count as 0.
std::string to_svg(const Chart& chart);

/// A line for each row; columns that a row does not have are "-".
std::string to_table(const nlohmann::json& rows, const std::vector<std::string>& columns);

/// The whole page around `body`, which is HTML (apps/page/page.hpp), with the colors of the sources.
std::string to_page(const std::string& title, const std::string& body);

}  // namespace matrixfsdp::bench
