#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::apps {

/// Reads a command line. Returns what --help or --version (of `app` or of its command) is to print instead of any work,
/// and nothing otherwise. Throws InputError with one line for anything that CLI11 refuses.
inline std::string parse_arguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version_text) {
    return fmt::format("{}\n", version_text.what());
  } catch (const CLI::ExtrasError&) {
    throw InputError(
        fmt::format("option '{}': not known; --help lists the options", fmt::join(app.remaining(true), " ")));
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("command line: {}; --help lists the options", error.what()));
  }
  return {};
}

}  // namespace matrixfsdp::apps
