#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench many-matrices`: orthogonalize_many of all matrices of a model, beside fixed choices of threads for each
/// matrix and matrices at once, in rounds in which they take turns.
struct ManyMatricesOptions {
  std::string model = "gpt2:124m";
  std::string algorithm = "auto";
  int steps = 5;
  int threads = 2;  ///< cores
  std::int64_t rounds = 5;
  bool json = false;
};
/// Throws InputError for more than one rank, and an unknown name.
int many_matrices(Session& session, const ManyMatricesOptions& options);

/// Its subcommand.
Command add_many_matrices(CLI::App& app);

}  // namespace matrixfsdp::bench
