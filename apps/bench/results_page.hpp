#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench results-page`: one page of what benchmarks have printed with --json, beside the published figures.
struct ResultsPageOptions {
  std::vector<std::string> files;  ///< a section for each; beside NAME.json, NAME.command says how it was made
  std::string output;
};
/// Throws InputError for a file that cannot be read, or holds anything else, and for an output that cannot be written.
int results_page(Session& session, const ResultsPageOptions& options);

/// Its subcommand.
Command add_results_page(CLI::App& app);

}  // namespace matrixfsdp::bench
