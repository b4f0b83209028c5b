#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "apps/bench/checkpoint.hpp"
#include "apps/bench/collectives.hpp"
#include "apps/bench/many_matrices.hpp"
#include "apps/bench/newton_schulz.hpp"
#include "apps/bench/optimizer_step.hpp"
#include "apps/bench/overlap.hpp"
#include "apps/bench/paper_model.hpp"
#include "apps/bench/planner.hpp"
#include "apps/bench/results_page.hpp"
#include "apps/bench/train_step.hpp"
#include "apps/parse_arguments.hpp"
#include "apps/train/version.hpp"

namespace matrixfsdp::bench {
namespace {

/// In the order of --help.
std::vector<Command> add_commands(CLI::App& app) {
  return {add_train_step(app),    add_collectives(app),    add_overlap(app), add_newton_schulz(app),
          add_many_matrices(app), add_optimizer_step(app), add_planner(app), add_paper_model(app),
          add_checkpoint(app),    add_results_page(app)};
}

/// What was asked for, or why it cannot be done: told once MPI knows the rank.
struct Parsed {
  const Command* command = nullptr;
  std::string text_and_exit;
  std::string error;

  [[nodiscard]] int threads() const { return command != nullptr && command->threads ? *command->threads : 1; }
};

Parsed parse(CLI::App& app, const std::vector<Command>& commands, int argc, char** argv) {
  Parsed parsed;
  try {
    parsed.text_and_exit = apps::parse_arguments(app, argc, argv);
  } catch (const InputError& bad) {
    parsed.error = bad.what();
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) parsed.command = &command;
  }
  return parsed;
}

int run(int argc, char** argv) {
  CLI::App app("Benchmarks. Figures are medians over rounds in which the contenders take turns.\n");
  app.set_version_flag("--version", train::version_text());
  app.require_subcommand(1);
  const std::vector<Command> commands = add_commands(app);
  const Parsed parsed = parse(app, commands, argc, argv);
  SessionOptions session_options;
  session_options.threads = parsed.threads();
  Session session = Session::start(argc, argv, session_options);
  if (!parsed.error.empty()) throw InputError(parsed.error);
  if (!parsed.text_and_exit.empty()) {
    if (session.world().rank() == 0) fmt::print("{}", parsed.text_and_exit);
    return exit_ok;
  }
  linalg::set_threads(parsed.threads());
  return parsed.command->run(session);
}

}  // namespace
}  // namespace matrixfsdp::bench

int main(int argc, char** argv) {
  return matrixfsdp::run_main([&] { return matrixfsdp::bench::run(argc, argv); });
}
