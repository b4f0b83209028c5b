#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "apps/escaped.hpp"
#include "apps/page/legend.hpp"
#include "apps/page/page.hpp"
#include "apps/page/scale.hpp"
#include "apps/report/sections.hpp"

namespace matrixfsdp::report {
namespace {

using nlohmann::json;

std::string shown(double value, const char* form) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : "-";
}

std::string parameters_of(const json& header) {
  const json count = at(header, "parameters");
  return count.is_number() ? page::short_number(count.get<double>()) : "-";
}

std::vector<std::string> row_of(const RunFile& run) {
  const json configuration = at(run.header, "configuration");
  const double last_step = run.values("loss").back().x;
  const json steps = at(configuration, "steps");
  const double bytes = run.median("bytes/optimizer");
  return {run.name,
          text_of(at(at(configuration, "model"), "name")),
          parameters_of(run.header),
          text_of(at(configuration, "strategy")),
          text_of(at(run.header, "world_size")),
          steps.is_number() ? fmt::format("{:.0f} of {}", last_step, steps.dump()) : fmt::format("{:.0f}", last_step),
          shown(run.last("loss"), "{:.4f}"),
          shown(run.last("validation_loss"), "{:.4f}"),
          shown(run.median("tokens_per_second"), "{:.0f}"),
          shown(run.median("milliseconds/total"), "{:.4g}"),
          std::isfinite(bytes) ? page::short_number(bytes) : "-",
          fmt::format("{}", run.skipped)};
}

void add_notes(const RunFile& run, std::vector<std::string>& notes) {
  if (run.truncated) {
    notes.push_back(
        fmt::format("{}: the last line has no end: the run is still going, or was killed. It is left out.", run.name));
  }
  if (run.parts > 1) {
    notes.push_back(fmt::format("{}: was resumed {} time{}; steps that were taken again are shown as they were last.",
                                run.name, run.parts - 1, run.parts == 2 ? "" : "s"));
  }
  if (run.header.is_null())
    notes.push_back(fmt::format("{}: has no line about the run itself: no owners, no options.", run.name));
  if (run.skipped > 0)
    notes.push_back(fmt::format("{}: {} step{} skipped, because the gradient was not finite.", run.name, run.skipped,
                                run.skipped == 1 ? "" : "s"));
}

std::vector<std::string> keys_that_differ(const Runs& runs) {
  std::vector<std::string> keys;
  for (const RunFile& run : runs) {
    const json configuration = at(run.header, "configuration");
    if (!configuration.is_object()) continue;
    for (const auto& entry : configuration.items()) {
      const bool differs = std::any_of(runs.begin(), runs.end(), [&](const RunFile& other) {
        return at(at(other.header, "configuration"), entry.key().c_str()) != entry.value();
      });
      if (differs && std::find(keys.begin(), keys.end(), entry.key()) == keys.end()) keys.push_back(entry.key());
    }
  }
  return keys;
}

std::string differences(const Runs& runs) {
  std::vector<std::string> columns{"option"};
  for (const RunFile& run : runs)
    columns.push_back(run.name);
  std::vector<std::vector<std::string>> rows;
  for (const std::string& key : keys_that_differ(runs)) {
    rows.push_back({key});
    for (const RunFile& run : runs)
      rows.back().push_back(text_of(at(at(run.header, "configuration"), key.c_str())));
  }
  return rows.empty() ? "" : page::paragraph("Options in which the runs differ:") + page::to_table(columns, rows);
}

}  // namespace

std::string overview(const Runs& runs) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;
  std::vector<page::LegendEntry> names;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    rows.push_back(row_of(runs[k]));
    add_notes(runs[k], notes);
    names.push_back({runs[k].name, static_cast<int>(k)});
  }
  std::string text = page::to_table({"run", "model", "parameters", "strategy", "ranks", "steps", "loss", "validation",
                                     "tokens/s", "ms/step", "optimizer bytes", "skipped"},
                                    rows);
  if (runs.size() > 1) text += page::to_legend(names);
  for (const std::string& note : notes)
    text += page::paragraph(note);
  return text;
}

std::string configurations(const Runs& runs) {
  std::string text = runs.size() > 1 ? differences(runs) : "";
  for (const RunFile& run : runs) {
    const json configuration = at(run.header, "configuration");
    if (!configuration.is_object()) continue;
    text += page::details(fmt::format("{}: all options (MatrixFSDP {}; {})", run.name,
                                      text_of(at(run.header, "version")), text_of(at(run.header, "backend"))),
                          fmt::format("<pre>{}</pre>\n", apps::escaped(configuration.dump(2))));
  }
  return text.empty() ? "" : "<h2>Options</h2>\n" + text;
}

}  // namespace matrixfsdp::report
