#include "apps/bench/benchmark.hpp"

#include <algorithm>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

namespace matrixfsdp::bench {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) throw ContractError("median: expected at least one value");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
  return {median, values.front(), values.back()};
}

nlohmann::json to_json(const Spread& spread) {
  return {{"median", spread.median}, {"minimum", spread.minimum}, {"maximum", spread.maximum}};
}

std::string cell(const nlohmann::json& value) {
  if (value.is_null()) return "-";
  if (value.is_object() && value.contains("median")) return fmt::format("{:.4g}", value["median"].get<double>());
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

double slowest(Communicator& communicator, double mine) {
  const auto all = all_gather_value(communicator, Purpose::other, mine, {"benchmark times", "", ""});
  return *std::max_element(all.begin(), all.end());
}

double hidden_share(double under_way, double waited) {
  return under_way > 0 ? std::max(0.0, 1 - waited / under_way) : 1;
}

nlohmann::json environment(Session& session) {
  return {{"processor", processor()},
          {"cores", std::thread::hardware_concurrency()},
          {"session", session.description()},
          {"blas", linalg::blas_description()}};
}

void print(const std::string& benchmark, Session& session, const nlohmann::json& rows,
           const std::vector<std::string>& columns, bool json) {
  if (session.world().rank() != 0) return;
  if (json) {
    fmt::print("{}\n",
               nlohmann::json{{"benchmark", benchmark}, {"environment", environment(session)}, {"rows", rows}}.dump(2));
    return;
  }
  fmt::print("{}: {}; {}\n", benchmark, session.description(), linalg::blas_description());
  std::vector<std::size_t> widths;
  for (const std::string& column : columns) {
    std::size_t width = column.size();
    for (const auto& row : rows)
      width = std::max(width, cell(row[column]).size());
    widths.push_back(width);
    fmt::print("{:>{}}  ", column, width);
  }
  fmt::print("\n");
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c)
      fmt::print("{:>{}}  ", cell(row[columns[c]]), widths[c]);
    fmt::print("\n");
  }
}

}  // namespace matrixfsdp::bench
