#include "apps/generate/command_line.hpp"

#include <CLI/CLI.hpp>

#include <matrixfsdp/core/error.hpp>

#include "apps/option_reader.hpp"
#include "apps/parse_arguments.hpp"
#include "apps/train/version.hpp"

namespace matrixfsdp::generate {
namespace {

const char* const about =
    "Continues a prompt with the model of a checkpoint, on any number of ranks: the same tokens on all of them. "
    "Products\n"
    "are float32.\n"
    "Example: mpiexec -n 4 mfsdp-generate runs/book --prompt 'Once upon'\n";

void add_options(apps::OptionReader& reader, CLI::App& app, Command& command, std::int64_t& seed,
                 std::int64_t& threads) {
  app.add_option("CHECKPOINT", command.checkpoint, "Folder of one step, or of several: then that of the newest");
  reader.text("--prompt", "What is continued: text, or token ids ('17 4 1029') where the model learned from shards", "",
              [&command](const std::string& value) { command.prompt = value; });
  reader.choice("--tokens",
                "What tokens are. bytes: of text; ids; auto: what the run had that made the checkpoint, and bytes for "
                "an imported one with a vocabulary of 256",
                "auto",
                {{"auto", [&command] { command.is_text.reset(); }},
                 {"bytes", [&command] { command.is_text = true; }},
                 {"ids", [&command] { command.is_text = false; }}});
  reader.integer("--sample-tokens", command.tokens, 1, "Tokens that are added");
  reader.real("--temperature", command.temperature, 0, 100, "Of sampling; 0: the most likely token");
  reader.integer("--seed", seed, 0, "Of sampling; by default that of the run")->default_str("");
  train::add_model_options(reader, command.model, command.given);
  reader.text("--backend", "What carries units' segments: auto, mpi, nccl", "auto",
              [&command](const std::string& value) { command.backend = train::parse_backend(value); });
  reader.integer("--threads", threads, 1, "Threads of each rank (BLAS and Kokkos)");
  reader.real("--timeout", command.timeout_seconds, 0.1, 1e6, "Seconds until a wait for another rank ends the job");
  app.add_flag("--json", command.json, "Print checkpoint, step, prompt, tokens and text as JSON");
}

}  // namespace

Command parse_command(int argc, char** argv) {
  Command command;
  constexpr std::int64_t none = -1;
  std::int64_t seed = none;
  std::int64_t threads = 1;
  CLI::App app(about);
  app.footer(
      "--model and its extents are for imported checkpoints alone: those of mfsdp-train say what their model is.\n"
      "Exit codes: 0; 2 for an error, in one line on standard error.");
  app.set_version_flag("--version", train::version_text());
  apps::OptionReader reader(app);
  add_options(reader, app, command, seed, threads);
  command.text_and_exit = apps::parse_arguments(app, argc, argv);
  if (!command.text_and_exit.empty()) return command;
  if (command.checkpoint.empty()) throw InputError("CHECKPOINT '': expected the folder of a checkpoint");
  if (command.prompt.empty()) throw InputError("--prompt '': expected something to continue");
  if (seed != none) command.seed = static_cast<std::uint64_t>(seed);
  command.threads = static_cast<int>(threads);
  return command;
}

}  // namespace matrixfsdp::generate
