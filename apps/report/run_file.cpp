#include "apps/report/run_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::report {
namespace {

using nlohmann::json;
using page::Point;

constexpr double none = std::numeric_limits<double>::quiet_NaN();

class Reader {
 public:
  explicit Reader(const std::string& path) { run_.path = path; }

  RunFile read() {
    std::error_code ignored;
    std::ifstream file(run_.path, std::ios::binary);
    if (!file || std::filesystem::is_directory(run_.path, ignored))
      throw InputError(
          fmt::format("run '{}': cannot be read; expected a metrics file of mfsdp-train --metrics", run_.path));
    run_.health = run_.failed = json::array();
    for (std::string line; std::getline(file, line);) {
      ++line_;
      take(line, file.eof());
    }
    if (run_.values("loss").empty()) {
      throw InputError(
          fmt::format("run '{}': {} lines without a step; expected those of mfsdp-train --metrics", run_.path, line_));
    }
    for (const Point& step : run_.values("skipped"))
      run_.skipped += step.y > 0 ? 1 : 0;
    return std::move(run_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("run '{}', line {}: {}", run_.path, line_, what));
  }

  /// `open`: nothing ends the line, so that it may be a part of one.
  void take(const std::string& text, bool open) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) return;
    const json line = json::parse(text, nullptr, false);
    if (line.is_discarded() && open) {
      run_.truncated = true;
      return;
    }
    if (!line.is_object())
      refuse(fmt::format("'{}': is no JSON object; expected a metrics line of mfsdp-train", text.substr(0, 40)));
    if (line.contains("run")) take_header(line);
    if (line.contains("loss")) take_step(line);
    if (line.contains("validation_loss")) add("validation_loss", step_of(line), number(line, "validation_loss"));
    if (line.contains("memory")) run_.memory = object(line, "memory");
    for (const auto& [key, lines] : {std::pair("health", &run_.health), {"failed", &run_.failed}}) {
      if (!line.contains(key)) continue;
      step_of(line);
      if (!line[key].is_array()) refuse(fmt::format("'{}': expected an array", key));
      lines->push_back(line);
    }
  }

  double step_of(const json& line) const {
    if (!line.contains("step") || !line["step"].is_number_integer()) refuse("'step': expected an integer");
    return line["step"].get<double>();
  }

  double number(const json& line, const std::string& key) const {
    if (line[key].is_null()) return none;
    if (!line[key].is_number()) refuse(fmt::format("'{}' is {}: expected a number", key, line[key].dump()));
    return line[key].get<double>();
  }

  const json& object(const json& line, const std::string& key) const {
    if (!line[key].is_object()) refuse(fmt::format("'{}' is {}: expected an object", key, line[key].dump()));
    return line[key];
  }

  void take_header(const json& line) {
    run_.header = object(line, "run");
    run_.memory = json();  // of the part before
    ++run_.parts;
    forget_from(step_of(line) + 1);
  }

  void take_step(const json& line) {
    const double step = step_of(line);
    const std::vector<Point>& losses = run_.series["loss"];
    if (!losses.empty() && losses.back().x >= step) forget_from(step);
    for (const char* key : {"loss", "grad_norm", "lr", "tokens_per_second", "peak_bytes"}) {
      if (line.contains(key)) add(key, step, number(line, key));
    }
    for (const char* group : {"milliseconds", "bytes"}) {
      if (!line.contains(group)) continue;
      const json& values = object(line, group);
      for (const auto& entry : values.items())
        add(fmt::format("{}/{}", group, entry.key()), step, number(values, entry.key()));
    }
    if (line.contains("skipped")) add("skipped", step, line["skipped"] == true ? 1 : 0);
  }

  void add(const std::string& name, double step, double value) {
    std::vector<Point>& points = run_.series[name];
    while (!points.empty() && points.back().x >= step)  // a finished run that was started again validates again
      points.pop_back();
    points.push_back({step, value});
  }

  /// A resumed run takes these steps again.
  void forget_from(double step) {
    for (auto& entry : run_.series) {
      std::vector<Point>& points = entry.second;
      while (!points.empty() && points.back().x >= step)
        points.pop_back();
    }
    for (json* lines : {&run_.health, &run_.failed}) {
      while (!lines->empty() && lines->back()["step"].get<double>() >= step)
        lines->erase(lines->size() - 1);
    }
  }

  RunFile run_;
  std::int64_t line_ = 0;
};

/// The last `parts` parts of a path.
std::string tail_of(const std::string& path, std::size_t parts) {
  std::filesystem::path tail;
  std::filesystem::path left = std::filesystem::path(path).lexically_normal();
  for (std::size_t i = 0; i < parts && left.has_filename(); ++i) {
    tail = tail.empty() ? left.filename() : left.filename() / tail;
    left = left.parent_path();
  }
  return tail.string();
}

}  // namespace

const std::vector<Point>& RunFile::values(const std::string& of) const {
  static const std::vector<Point> empty;
  const auto found = series.find(of);
  return found == series.end() ? empty : found->second;
}

double RunFile::last(const std::string& of) const {
  const std::vector<Point>& points = values(of);
  return points.empty() ? none : points.back().y;
}

double RunFile::median(const std::string& of) const {
  std::vector<double> sorted;
  for (const Point& point : values(of)) {
    if (std::isfinite(point.y)) sorted.push_back(point.y);
  }
  if (sorted.empty()) return none;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string text_of(const json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

json at(const json& object, const char* key) {
  return object.is_object() ? object.value(key, json()) : json();
}

RunFile read_run(const std::string& path) {
  return Reader(path).read();
}

std::vector<RunFile> read_runs(const std::vector<std::string>& paths) {
  std::vector<RunFile> runs;
  std::set<std::string> names;
  runs.reserve(paths.size());
  for (const std::string& path : paths)
    runs.push_back(read_run(path));
  constexpr std::size_t most_parts = 32;
  for (std::size_t parts = 1; parts <= most_parts && names.size() < runs.size(); ++parts) {
    names.clear();
    for (RunFile& run : runs)
      names.insert(run.name = tail_of(run.path, parts));
  }
  return runs;
}

}  // namespace matrixfsdp::report
