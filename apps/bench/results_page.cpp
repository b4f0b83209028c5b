#include "apps/bench/results_page.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "apps/bench/page_sections.hpp"
#include "apps/escaped.hpp"
#include "apps/page/page.hpp"

namespace matrixfsdp::bench {
namespace {

using apps::escaped;
using page::paragraph;

std::string text_of(std::ifstream& file) {
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string first_line(std::ifstream& file) {
  std::string line;
  std::getline(file, line);
  return line;
}

bool is_report(const nlohmann::json& report) {
  if (!report.is_object() || !report.contains("benchmark") || !report["benchmark"].is_string()) return false;
  if (!report.contains("environment") || !report["environment"].is_object()) return false;
  if (!report.contains("rows") || !report["rows"].is_array() || report["rows"].empty()) return false;
  const auto& rows = report["rows"];
  return std::all_of(rows.begin(), rows.end(), [](const nlohmann::json& row) { return row.is_object(); });
}

InputError unreadable(const std::string& path, const std::string& what) {
  return InputError(fmt::format("results '{}': {}, expected what mfsdp-bench prints with --json", path, what));
}

nlohmann::json read_report(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw unreadable(path, "cannot be read");
  const nlohmann::json report = nlohmann::json::parse(text_of(file), nullptr, false);
  if (report.is_discarded()) throw unreadable(path, "no JSON");
  if (!is_report(report)) throw unreadable(path, "no benchmark with environment and rows");
  return report;
}

/// What made the figures, where it was kept beside them.
std::string command_of(const std::string& path) {
  std::ifstream file(std::filesystem::path(path).replace_extension(".command"));
  return file ? fmt::format("<pre>{}</pre>\n", escaped(first_line(file))) : paragraph("The command was not kept.");
}

std::string environment_of(const nlohmann::json& environment) {
  std::string text;
  for (const auto& [key, value] : environment.items())
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
  return fmt::format("<p class=\"small\">{}</p>\n", escaped(text));
}

std::string section_text(const std::string& path) {
  const nlohmann::json report = read_report(path);
  try {
    const Section section = section_of(report);
    std::string text = fmt::format("<h2>{}</h2>\n", escaped(section.title));
    if (!section.words.empty()) text += paragraph(section.words);
    text += command_of(path) + environment_of(report["environment"]);
    for (const Chart& chart : section.charts)
      text += to_svg(chart);
    return text + to_table(report["rows"], section.columns);
  } catch (const nlohmann::json::exception&) {
    throw unreadable(path, fmt::format("rows that are not those of {}", report["benchmark"].get<std::string>()));
  }
}

std::string introduction() {
  return paragraph(
             "The published figures (Gao, Xu, Zhang 2026) are of up to 8 nodes of 8 A100: blocks of four h x h and two "
             "h x 4h matrices, h = 4096, sequences of 4096 tokens, bfloat16, recomputation. They imply 8.8 thousand "
             "operations in the time of one byte between nodes, and that is what the reduced form keeps.") +
         paragraph(
             "What is emulated: every node is a network namespace of one machine, with one rank, behind a link whose "
             "rate is limited; ranks speak TCP through one switch. So all ranks share the machine's cores (their rates "
             "are measured while all of them compute), and what one rank does not use another one can. Links have no "
             "added latency.") +
         paragraph(
             "What differs: 8 ranks instead of 64, float32 on cores, and models that are thousands of times smaller. "
             "Ratios between strategies can be compared with the published ones, milliseconds cannot. Figures are "
             "medians over rounds in which the contenders take turns; predicted is what the model of time says from "
             "links and rates of the same run.");
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError(fmt::format("--output '{}': cannot be written", path));
}

}  // namespace

int results_page(Session& session, const ResultsPageOptions& options) {
  std::string error;
  if (session.world().rank() == 0) {
    try {
      std::string body = introduction();
      for (const std::string& path : options.files)
        body += section_text(path);
      write(options.output, to_page("MatrixFSDP beside its peers and the published figures", body));
    } catch (const InputError& bad) {
      error = bad.what();
    }
  }
  agree_on_input(session.world(), error);
  return exit_ok;
}

Command add_results_page(CLI::App& app) {
  const auto options = std::make_shared<ResultsPageOptions>();
  CLI::App* command = app.add_subcommand(
      "results-page",
      "One HTML page, which needs nothing else, of files that other benchmarks have printed with --json: tables, and "
      "charts beside the published figures. A command line kept as NAME.command beside NAME.json is shown with it.");
  command->add_option("files", options->files, "JSON of benchmarks, a section for each")->required();
  command->add_option("--output", options->output, "The page")->required();
  return make_command<ResultsPageOptions>(command, options, &results_page);
}

}  // namespace matrixfsdp::bench
