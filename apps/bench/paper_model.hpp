#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench paper-model`: the model of time and memory beside the published figures (Gao, Xu, Zhang 2026; 64 A100).
struct PaperModelOptions {
  bool json = false;
};

/// Four rates are fitted to the rows of 1 and 2 nodes; everything else is predicted. A row for each figure.
int paper_model(Session& session, const PaperModelOptions& options);

/// Columns of its table, for people and for pages.
std::vector<std::string> paper_model_columns();

/// Its subcommand.
Command add_paper_model(CLI::App& app);

}  // namespace matrixfsdp::bench
