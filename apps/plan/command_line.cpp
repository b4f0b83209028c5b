#include "apps/plan/command_line.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/version.hpp>
#include <matrixfsdp/plan/transformer.hpp>
#include <matrixfsdp/schema/description.hpp>

#include "apps/option_reader.hpp"

namespace matrixfsdp::apps {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;

const char* const about =
    "Who would own which matrices of a model on N ranks, how even that is, and what it costs each rank. Starts no "
    "MPI.\n"
    "With the file of a calibration (mfsdp-train --collective auto --collective-profile FILE, or mfsdp-bench\n"
    "collectives --collective-profile FILE, run on the cluster in question) also how each unit would be unsharded and\n"
    "reduced, and in what time; without it no times are predicted.\n"
    "Example: mfsdp-plan --model llama:8b --ranks 64 --nodes 8\n";

}  // namespace

PlanCommand parse_plan_command(int argc, char** argv) {
  PlanCommand command;
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;
  CLI::App app(about);
  app.set_version_flag("--version", fmt::format("MatrixFSDP {}\n{}", version(), io::hdf5_description()));
  OptionReader reader(app);
  reader.text("--model", fmt::format("Catalogue name: {}", fmt::join(transformer_names(), ", ")), "",
              [&command](const std::string& value) { command.model = value; });
  reader.integer("--ranks", ranks, 1, "Ranks that share the model")->default_str("");
  reader.integer("--nodes", nodes, 1, "Nodes that the ranks are on, as many on each; they divide --ranks");
  reader.text("--planner", "role, scope, cost, balanced", "balanced",
              [&command](const std::string& value) { command.planner.policy = parse_policy(value); });
  reader.text("--collective-profile", "File of a calibration of collectives", "",
              [&command](const std::string& value) { command.profile = value; });
  app.add_flag("--json", command.json, "Print the plan as JSON on standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    command.text_and_exit = app.help();
    return command;
  } catch (const CLI::CallForVersion& version_text) {
    command.text_and_exit = fmt::format("{}\n", version_text.what());
    return command;
  } catch (const CLI::ExtrasError&) {
    throw InputError(fmt::format("option '{}': not known; --help lists the options", fmt::join(app.remaining(), " ")));
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("command line: {}; --help lists the options", error.what()));
  }
  if (command.model.empty()) {
    throw InputError(fmt::format("--model '': expected one of {}", fmt::join(transformer_names(), ", ")));
  }
  if (ranks < 1 || ranks > most_ranks)
    throw InputError(fmt::format("--ranks {}: expected a number from 1 to {}", ranks, most_ranks));
  if (nodes > ranks || ranks % nodes != 0)
    throw InputError(fmt::format("--nodes {}: expected a divisor of --ranks {}", nodes, ranks));
  command.ranks = static_cast<int>(ranks);
  command.nodes = static_cast<int>(nodes);
  return command;
}

}  // namespace matrixfsdp::apps
