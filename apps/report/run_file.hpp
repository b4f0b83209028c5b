#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/page/line_chart.hpp"

namespace matrixfsdp::report {

/// What a metrics file says. Where a run was resumed, the steps that it took again replace those before.
struct RunFile {
  std::string path;
  std::string name;  ///< short, and unlike those of the other runs
  /// By step: "loss", "grad_norm", "lr", "tokens_per_second", "peak_bytes", "validation_loss", "milliseconds/forward",
  /// "bytes/unshard", ... NaN where the file has null.
  std::map<std::string, std::vector<page::Point>> series;
  nlohmann::json header;   ///< the last "run" line's object; null: none
  nlohmann::json memory;   ///< the last part's "memory" line's object; null: none (an unfinished run)
  nlohmann::json health;   ///< an array of the "health" lines
  nlohmann::json failed;   ///< an array of the "failed" lines
  std::int64_t parts = 0;  ///< "run" lines: more than one where it was resumed
  std::int64_t skipped = 0;
  bool truncated = false;  ///< the last line has no end: the run is still going, or was killed

  [[nodiscard]] const std::vector<page::Point>& values(const std::string& of) const;
  /// NaN where there is none.
  [[nodiscard]] double last(const std::string& of) const;
  [[nodiscard]] double median(const std::string& of) const;
};

/// Reads a metrics file of mfsdp-train; lines that it does not know are left out. Throws InputError, with file and
/// line, for a file that cannot be read, a line that is no JSON object (unless it is the last one, and has no end), a
/// known field of another type, and a file without a step.
RunFile read_run(const std::string& path);

/// A value as people read it: texts without quotes, "-" for null.
std::string text_of(const nlohmann::json& value);

/// object[key], null where it is not there.
nlohmann::json at(const nlohmann::json& object, const char* key);

/// All of them, named by as little of their paths as tells them apart.
std::vector<RunFile> read_runs(const std::vector<std::string>& paths);

}  // namespace matrixfsdp::report
