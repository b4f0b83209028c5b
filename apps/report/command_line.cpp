#include "apps/report/command_line.hpp"

#include <algorithm>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/version.hpp>

#include "apps/option_reader.hpp"
#include "apps/parse_arguments.hpp"

namespace matrixfsdp::report {
namespace {

const char* const about =
    "One HTML page of one or more runs, laid over each other: loss, learning rate, time and bytes of a step, memory "
    "of\n"
    "every rank, who owns which matrix, the matrices' health (mfsdp-train --health-every), options. The page needs\n"
    "nothing else: no network, no script. It may be made again while a run is going.\n"
    "Example: mfsdp-report runs/muon.jsonl runs/adamw.jsonl -o runs.html\n";

/// A page must not replace a run.
void check_output(const Command& command) {
  std::error_code ignored;
  const bool is_run = std::any_of(command.runs.begin(), command.runs.end(), [&](const std::string& run) {
    return run == command.output || std::filesystem::equivalent(run, command.output, ignored);
  });
  if (is_run) throw InputError(fmt::format("-o '{}': is one of the runs; expected another file", command.output));
}

}  // namespace

Command parse_command(int argc, char** argv) {
  Command command;
  CLI::App app(about);
  app.footer("Exit codes: 0; 2 for an error, in one line on standard error with file and line.");
  app.set_version_flag("--version", fmt::format("MatrixFSDP {}", version()));
  apps::OptionReader reader(app);
  app.add_option("RUN", command.runs, "Metrics files of mfsdp-train --metrics");
  reader.text("-o,--output", "The page; an older one is replaced", "",
              [&command](const std::string& value) { command.output = value; });
  command.text_and_exit = apps::parse_arguments(app, argc, argv);
  if (!command.text_and_exit.empty()) return command;
  if (command.runs.empty()) throw InputError("RUN '': expected at least one metrics file");
  if (command.output.empty()) throw InputError("-o '': expected the name of the page, FILE.html");
  check_output(command);
  return command;
}

}  // namespace matrixfsdp::report
