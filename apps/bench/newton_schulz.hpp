#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/bench/command.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench newton-schulz`: orthogonalize beside the plain iteration of three gemms with the same BLAS.
struct NewtonSchulzBenchOptions {
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes{{1024, 4096}, {1024, 1024}, {768, 3072}, {256, 1024}};
  std::vector<std::string> algorithms{"auto", "standard", "gram", "gram-no-restart"};
  std::vector<std::string> dtypes = {"float32"};
  std::string coefficients = "polar-express";
  int steps = 0;  ///< 0: as many as the coefficients have by default
  int threads = 1;
  std::int64_t rounds = 7;
  bool json = false;
};
/// Throws InputError for more than one rank, an unknown name, and a shape without elements.
int newton_schulz(Session& session, const NewtonSchulzBenchOptions& options);

/// Its subcommand.
Command add_newton_schulz(CLI::App& app);

}  // namespace matrixfsdp::bench
