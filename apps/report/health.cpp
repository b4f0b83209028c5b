#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "apps/page/page.hpp"
#include "apps/report/sections.hpp"

namespace matrixfsdp::report {
namespace {

using nlohmann::json;

constexpr double none = std::numeric_limits<double>::quiet_NaN();

/// matrix[of][what], NaN where it is null or not there.
double figure(const json& matrix, std::string_view of, std::string_view what) {
  if (!matrix.is_object()) return none;
  const auto group = matrix.find(std::string(of));
  if (group == matrix.end() || !group->is_object()) return none;
  const auto value = group->find(std::string(what));
  return value != group->end() && value->is_number() ? value->get<double>() : none;
}

struct Quantity {
  const char* title;
  const char* of;
  const char* what;
};
constexpr Quantity charted[] = {{"Gradient: Frobenius norm", "gradient", "norm"},
                                {"Weight: largest singular value (estimate)", "weight", "largest"},
                                {"Weight: smallest singular value (estimate)", "weight", "smallest"},
                                {"Update: distance from orthogonality", "update", "residual"}};

/// Over the matrices of each measurement: the median (`share` 0.5), the largest (1), the smallest (0).
std::vector<page::Point> quantiles(const RunFile& run, const Quantity& quantity, double share) {
  std::vector<page::Point> points;
  for (const json& line : run.health) {
    std::vector<double> values;
    for (const json& matrix : line["health"]) {
      if (const double value = figure(matrix, quantity.of, quantity.what); std::isfinite(value))
        values.push_back(value);
    }
    if (values.empty()) continue;
    std::sort(values.begin(), values.end());
    const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
    points.push_back({line["step"].get<double>(), values[at]});
  }
  return points;
}

std::string chart_of(const Runs& runs, const Quantity& quantity) {
  const bool smallest = std::string_view(quantity.what) == "smallest";
  page::LineChart chart{quantity.title, "", {}, true};
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const std::string name = runs.size() == 1 ? "" : runs[k].name + ", ";
    const int color = static_cast<int>(k);
    if (runs[k].health.empty()) continue;
    chart.lines.push_back({name + (smallest ? "smallest of all matrices" : "largest of all matrices"), color, false,
                           quantiles(runs[k], quantity, smallest ? 0 : 1)});
    chart.lines.push_back({name + "median", color, true, quantiles(runs[k], quantity, 0.5)});
  }
  return page::to_svg(chart);
}

std::string shown(double value) {
  return std::isfinite(value) ? fmt::format("{:.3g}", value) : "-";
}

std::string name_of(const json& matrix) {
  const auto text = [&matrix](const char* key) {
    return matrix.is_object() && matrix.contains(key) && matrix[key].is_string() ? matrix[key].get<std::string>() : "";
  };
  const std::string part = text("part");
  return text("matrix") + (part.empty() ? "" : ", " + part);
}

std::string last_table(const RunFile& run) {
  const json& line = run.health.back();
  std::vector<std::vector<std::string>> rows;
  for (const json& matrix : line["health"]) {
    std::vector<std::string> row{name_of(matrix), text_of(at(matrix, "rank"))};
    double bad = 0;
    for (const char* of : {"gradient", "weight", "update"}) {
      for (const char* what : {"norm", "largest", "smallest"})
        row.push_back(shown(figure(matrix, of, what)));
      if (const double count = figure(matrix, of, "non_finite"); std::isfinite(count)) bad += count;
    }
    row.push_back(shown(figure(matrix, "update", "residual")));
    row.push_back(fmt::format("{:.0f}", bad));
    rows.push_back(std::move(row));
  }
  return page::details(
      fmt::format("{}: every matrix, as step {} found it", run.name, line["step"].dump()),
      page::to_table({"matrix", "owner", "gradient norm", "largest", "smallest", "weight norm", "largest", "smallest",
                      "update norm", "largest", "smallest", "residual", "not finite"},
                     rows));
}

std::string failure_table(const Runs& runs) {
  constexpr std::size_t most_listed = 200;
  std::vector<std::vector<std::string>> rows;
  for (const RunFile& run : runs) {
    for (const json& line : run.failed) {
      for (const json& one : line["failed"]) {
        if (!one.is_object() || rows.size() == most_listed) continue;
        std::vector<std::string> row{run.name, line["step"].dump()};
        for (const char* key : {"parameter", "rank", "quantity", "count"}) {
          row.push_back(text_of(at(one, key)));
        }
        rows.push_back(std::move(row));
      }
    }
  }
  if (rows.empty()) return "";
  return "<h3>Steps that failed</h3>\n" +
         page::to_table({"run", "step", "parameter", "rank", "what", "values not finite"}, rows);
}

}  // namespace

std::string health(const Runs& runs) {
  std::string body;
  std::string tables;
  for (const Quantity& quantity : charted)
    body += chart_of(runs, quantity);
  if (!body.empty()) body = fmt::format("<div class=\"charts\">\n{}</div>\n", body);
  for (const RunFile& run : runs) {
    if (!run.health.empty()) tables += last_table(run);
  }
  body += tables + failure_table(runs);
  return body.empty() ? "" : "<h2>Health of the matrices</h2>\n" + body;
}

}  // namespace matrixfsdp::report
