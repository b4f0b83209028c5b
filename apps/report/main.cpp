#include <exception>

#include <fmt/format.h>

#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "apps/report/command_line.hpp"
#include "apps/report/report_page.hpp"

namespace {

using namespace matrixfsdp;

int run(int argc, char** argv) {
  const report::Command command = report::parse_command(argc, argv);
  if (!command.text_and_exit.empty()) {
    fmt::print("{}", command.text_and_exit);
    return 0;
  }
  const report::Runs runs = report::read_runs(command.runs);
  io::write_text_durably(command.output, report::report_page(runs));
  for (const report::RunFile& one : runs) {
    if (one.truncated)
      log_line(fmt::format("run '{}': the last line has no end, and is left out: the run is still going, or was killed",
                           one.path));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    log_line(error.what());
    return 2;
  }
}
