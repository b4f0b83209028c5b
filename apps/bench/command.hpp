#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/train/backend.hpp"

namespace CLI {
class App;
}

namespace matrixfsdp::bench {

/// A subcommand of mfsdp-bench: its options are the app's, and `run` does what they say.
struct Command {
  CLI::App* app = nullptr;
  std::function<int(Session&)> run;
  std::shared_ptr<const int> threads;  ///< of each rank, once the command line is read; null: 1
};

/// Keeps `options`, to which the app's options write, for as long as the command lives.
template <class Options>
Command make_command(CLI::App* app, std::shared_ptr<Options> options, int (*run)(Session&, const Options&)) {
  Command command{app, [options, run](Session& session) { return run(session, *options); }, nullptr};
  if constexpr (requires { options->threads; })
    command.threads = std::shared_ptr<const int>(options, &options->threads);
  return command;
}

/// --backend and --gpu-aware-mpi.
void add_backend(CLI::App& app, train::Backend& backend, mpi::GpuAware& gpu_aware);

/// Of all strategies, for an option that checks them.
std::vector<std::string> strategy_names();
/// Of all optimizers of matrices.
std::vector<std::string> optimizer_names();

}  // namespace matrixfsdp::bench
