#include "apps/ckpt/command_line.hpp"

#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/version.hpp>
#include <matrixfsdp/schema/description.hpp>

#include "apps/option_reader.hpp"
#include "apps/parse_arguments.hpp"

namespace matrixfsdp::ckpt {
namespace {

using apps::OptionReader;

constexpr std::int64_t most_ranks = 1 << 16;

const char* const about =
    "Looks into checkpoints, compares them and makes new ones. One process, without MPI; an existing checkpoint is "
    "never\n"
    "written to. CHECKPOINT is the folder of one step, or a folder of checkpoints: the one that its file 'latest' "
    "names.\n"
    "Exit codes: 0 same or valid, 1 different or not valid, 2 error.\n"
    "Example: mfsdp-ckpt show runs/book --stats\n";

/// One subcommand and what its options need. It is gone when they are read: they keep the command, not this.
struct Builder {
  CLI::App& app;
  Command& command;
  OptionReader reader;

  Builder(CLI::App& parent, Command& told, const std::string& name, Action action, const std::string& help)
      : app(*parent.add_subcommand(name, help)), command(told), reader(app) {
    app.callback([&told, action] { told.action = action; });
    app.add_flag("--json", told.json, "Print JSON on standard output");
  }

  void path(const std::string& name, std::string& target, const std::string& help) {
    app.add_option(name, target, help)->required();
  }

  void layout() {
    reader.integer("--ranks", command.ranks, 1, "Ranks that the new checkpoint is laid out for");
    reader.text("--planner", "role, scope, cost, balanced", "balanced",
                [&told = command](const std::string& value) { told.planner.policy = parse_policy(value); });
  }

  void names(const std::string& shown_default) {
    const auto choose = [&told = command](Names names) {
      return [&told, names] {
        told.names = names;
        told.names_given = true;
      };
    };
    reader.choice("--names", "matrixfsdp: names and shapes of the model; huggingface: those of GPT-2 and Llama there",
                  shown_default,
                  {{"matrixfsdp", choose(Names::matrixfsdp)}, {"huggingface", choose(Names::hugging_face)}});
  }
};

void build_inspection(CLI::App& app, Command& command) {
  Builder list(app, command, "ls", Action::list, "Checkpoints of a folder: step, bytes, loss, ranks, valid or not");
  list.path("FOLDER", command.source, "Folder of checkpoints");
  list.app.add_flag("--quick", command.quick, "Look at manifests and sizes only, not at the content of every file");

  Builder show(app, command, "show", Action::show, "Tensors: shape, dtype, bytes, and which ranks hold them");
  show.path("CHECKPOINT", command.source, "Folder of one step, or of checkpoints");
  show.app.add_option("NAME", command.tensors, "Parameters to show; * and ? stand for any text and character");
  show.app.add_flag("--stats", command.statistics, "Minimum, maximum, mean, 2-norm and values that are not finite");
  show.app.add_flag("--histogram", command.histogram, "How the values are distributed");

  Builder verify(app, command, "verify", Action::verify,
                 "Structure, sizes, checksums, every element stored once, all values finite");
  verify.path("CHECKPOINT", command.source, "Folder of one step, or of checkpoints");

  Builder diff(app, command, "diff", Action::diff, "Compare parameters bit by bit, or within tolerances");
  diff.path("A", command.source, "Checkpoint");
  diff.path("B", command.target, "Checkpoint");
  diff.reader.real("--rtol", command.relative_tolerance, 0, 1e300, "Equal where |a - b| <= atol + rtol |b|");
  diff.reader.real("--atol", command.absolute_tolerance, 0, 1e300, "See --rtol");
  diff.app.add_flag("--all", command.all, "Optimizer and training state too");
}

void build_writing(CLI::App& app, Command& command) {
  Builder reshard(app, command, "reshard", Action::reshard,
                  "Write a checkpoint as another number of ranks, or another planner, would have");
  reshard.path("CHECKPOINT", command.source, "Folder of one step, or of checkpoints");
  reshard.path("FOLDER", command.target, "New folder of checkpoints");
  reshard.layout();

  Builder out(app, command, "export", Action::export_tensors, "Write parameters as a safetensors file");
  out.path("CHECKPOINT", command.source, "Folder of one step, or of checkpoints");
  out.app.add_option("--safetensors", command.files, "File to write")->required()->expected(1);
  out.names("matrixfsdp");
  out.reader.choice("--dtype", "float32, bfloat16; as stored where it is not given", "",
                    {{"float32", [&command] { command.dtype = "float32"; }},
                     {"bfloat16", [&command] { command.dtype = "bfloat16"; }}});

  Builder in(app, command, "import", Action::import_tensors, "Make the checkpoint of step 0 from safetensors files");
  in.path("FOLDER", command.target, "New folder of checkpoints");
  in.app.add_option("--safetensors", command.files, "Files to read")->required();
  in.names("");
  in.layout();
  in.reader.choice("--optimizer", "Whose state, all zeros, is made: muon (matrices; AdamW for the rest), adamw, none",
                   "muon",
                   {{"muon", [&command] { command.optimizer = StateOptimizer::muon; }},
                    {"adamw", [&command] { command.optimizer = StateOptimizer::adamw; }},
                    {"none", [&command] { command.optimizer = StateOptimizer::none; }}});
  in.reader.integer("--seed", command.seed, 0, "Seed of the run that will start from it");
}

}  // namespace

Command parse_command(int argc, char** argv) {
  Command command;
  CLI::App app(about);
  app.set_version_flag("--version", fmt::format("MatrixFSDP {}\n{}", version(), io::hdf5_description()));
  app.require_subcommand(1);
  build_inspection(app, command);
  build_writing(app, command);
  command.text_and_exit = apps::parse_arguments(app, argc, argv);
  if (command.ranks > most_ranks)
    throw InputError(fmt::format("--ranks {}: expected a number from 1 to {}", command.ranks, most_ranks));
  return command;
}

}  // namespace matrixfsdp::ckpt
