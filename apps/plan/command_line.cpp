#include "apps/plan/command_line.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/version.hpp>
#include <matrixfsdp/plan/machine.hpp>
#include <matrixfsdp/plan/transformer.hpp>
#include <matrixfsdp/schema/description.hpp>

#include "apps/option_reader.hpp"
#include "apps/parse_arguments.hpp"
#include "apps/preconditioner_options.hpp"

namespace matrixfsdp::apps {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;

const char* const about =
    "Who would own which matrices of a model on N ranks, how even that is, and what it costs each rank. Starts no "
    "MPI.\n"
    "With --machine also what a step of each strategy (beyond 4096 ranks: of matrix-fsdp) would take there, and how "
    "much\n"
    "memory.\n"
    "With the file of a calibration (mfsdp-train --collective auto --collective-profile FILE, or mfsdp-bench\n"
    "collectives --collective-profile FILE, run on the cluster in question) also how each unit would be unsharded and\n"
    "reduced, and in what time; without either no times are predicted.\n"
    "Example: mfsdp-plan --model llama:8b --ranks 64 --machine a100-8x8 --param-dtype bfloat16 --svg plan.svg\n";

const char* const machine_file =
    "A machine's file is JSON, every field there (--write-machine writes one to change):\n"
    "  format \"matrixfsdp machine\", format_version 1, name\n"
    "  nodes, ranks_per_node\n"
    "  inside, between              links inside a node, and between nodes: latency_seconds (of a hop),\n"
    "                               bytes_per_second (one rank sends), node_bytes_per_second (all of a node do)\n"
    "  gemm_flops_per_second        of a rank: products of forward and backward, as reached, not as advertised\n"
    "  orthogonalize_flops_per_second\n"
    "  memory_bytes                 of a rank\n"
    "  memory_bytes_per_second\n"
    "  slow_ranks                   [{\"rank\", \"factor\"}], by rank: computing takes so many times as long\n"
    "Exit codes: 0, or 2 for bad input.\n";

DType parse_travel(const std::string& option, const std::string& name) {
  if (name == name_of(DType::float32)) return DType::float32;
  if (name == name_of(DType::bfloat16)) return DType::bfloat16;
  throw InputError(fmt::format("{} '{}': expected float32 or bfloat16", option, name));
}

/// Numbers as they are given.
struct Numbers {
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;
  std::int64_t newton_schulz_steps = 0;
  std::int64_t threads = 1;
};

void add_plan_options(OptionReader& reader, PlanCommand& command, Numbers& numbers, OptimizerOptions& known) {
  reader.text("--model", fmt::format("Catalogue name: {}", fmt::join(transformer_names(), ", ")), "",
              [&command](const std::string& value) { command.model = value; });
  reader.integer("--seq-len", command.sequence_length, 1, "Tokens per sequence; by default the model's")
      ->default_str("");
  reader.integer("--ranks", numbers.ranks, 1, "Ranks that share the model")->default_str("");
  reader
      .integer("--nodes", numbers.nodes, 1,
               "Nodes that the ranks are on, as many on each; by default as many as the ranks of --machine need, or "
               "1")
      ->default_str("");
  reader.text("--planner", "role, scope, cost, balanced, profile (measured times: --profile)", "balanced",
              [&command](const std::string& value) { command.planner.policy = parse_policy(value); });
  reader.text("--profile", "Metrics file of a run of this model: what its matrices took on each rank", "",
              [&command](const std::string& value) { command.planner_profile = value; });
  reader.text("--optimizer", "Of matrices: muon, shampoo, soap, adamw", "muon", [&command](const std::string& value) {
    command.planner.optimizer.matrices = parse_matrix_optimizer(value);
  });
  add_preconditioner_options(reader, command.planner.optimizer.preconditioner, known);
  known.add(reader.integer("--ns-steps", numbers.newton_schulz_steps, 1, "Newton-Schulz steps, of Muon"),
            {MatrixOptimizer::muon});
}

void add_machine_options(OptionReader& reader, CLI::App& app, PlanCommand& command, Numbers& numbers) {
  reader.text("--machine",
              fmt::format("Where the step would run: {}, here (measured in about a second), or a file",
                          fmt::join(machine_preset_names(), ", ")),
              "", [&command](const std::string& value) { command.machine = value; });
  reader.text("--write-machine", "File to write the description of --machine to", "",
              [&command](const std::string& value) { command.write_machine = value; });
  reader.text("--collective-profile", "File of a calibration of collectives", "",
              [&command](const std::string& value) { command.collective_profile = value; });
  reader.integer("--micro-batch", command.micro_batch, 1, "Sequences per pass and rank");
  reader.integer("--passes", command.passes, 1, "Passes of a rank in a step");
  reader.integer("--threads", numbers.threads, 1,
                 "Of each rank: matrices that its optimizer steps at once, each with scratch of its own, for the "
                 "predicted memory");
  app.add_flag("--batches", command.planner.optimizer.batches,
               "Muon orthogonalizes small matrices of one shape in batches, as a build for CUDA does: their FLOPs and "
               "scratch are those of batches");
  reader.text("--param-dtype", "What weights travel as: float32, bfloat16", "float32",
              [&command](const std::string& value) { command.param_dtype = parse_travel("--param-dtype", value); });
  reader.text("--reduce-dtype", "What gradients travel as: float32, bfloat16", "float32",
              [&command](const std::string& value) { command.reduce_dtype = parse_travel("--reduce-dtype", value); });
  app.add_flag("--recompute", command.recompute, "Run each block's forward again in backward, for less memory");
  app.add_flag("--step-in-backward", command.step_in_backward,
               "Each unit is stepped in backward: with one pass, memory of gradients for units in flight only "
               "(matrix-fsdp; predicted times are those of a step afterwards)");
  app.add_flag("!--no-master-weights", command.master_weights,
               "Predict for weights, gradients and optimizer state that are kept and sent as bfloat16: half the bytes "
               "(this library's runtime keeps float32)");
  reader.text("--svg", "File for a picture: who owns what, and the predicted phases", "",
              [&command](const std::string& value) { command.svg = value; });
  app.add_flag("--json", command.json, "Print the plan as JSON on standard output");
}

/// What makes sense only together.
void check(const PlanCommand& command) {
  const bool profiled = command.planner.policy == Policy::profile;
  if (profiled && command.planner_profile.empty())
    throw InputError("--planner profile: expected --profile with the metrics file of a run");
  if (!profiled && !command.planner_profile.empty()) {
    throw InputError(
        fmt::format("--profile '{}': expected --planner profile, which alone reads it", command.planner_profile));
  }
  if (!command.machine.empty()) return;
  const auto needs_machine = [](const std::string& option) {
    throw InputError(option + ": expected --machine, whose predictions alone use it");
  };
  if (!command.write_machine.empty()) needs_machine(fmt::format("--write-machine '{}'", command.write_machine));
  if (command.micro_batch != 1) needs_machine(fmt::format("--micro-batch {}", command.micro_batch));
  if (command.recompute) needs_machine("--recompute");
  if (command.planner.optimizer.workers != 1)
    needs_machine(fmt::format("--threads {}", command.planner.optimizer.workers));
  if (!command.master_weights) needs_machine("--no-master-weights");
}

void take(const Numbers& numbers, PlanCommand& command) {
  const auto [ranks, nodes, steps, threads] = numbers;
  if (command.model.empty())
    throw InputError(fmt::format("--model '': expected one of {}", fmt::join(transformer_names(), ", ")));
  if (ranks < 1 || ranks > most_ranks)
    throw InputError(fmt::format("--ranks {}: expected a number from 1 to {}", ranks, most_ranks));
  if (nodes > ranks || (nodes > 0 && ranks % nodes != 0))
    throw InputError(fmt::format("--nodes {}: expected a divisor of --ranks {}", nodes, ranks));
  constexpr std::int64_t most_steps = 1000;
  if (steps > most_steps)
    throw InputError(fmt::format("--ns-steps {}: expected a number from 1 to {}", steps, most_steps));
  constexpr std::int64_t most_threads = 1 << 16;
  if (threads > most_threads)
    throw InputError(fmt::format("--threads {}: expected a number from 1 to {}", threads, most_threads));
  command.planner.optimizer.workers = static_cast<int>(threads);
  command.ranks = static_cast<int>(ranks);
  command.nodes = static_cast<int>(nodes);
  command.planner.optimizer.newton_schulz_steps = static_cast<int>(steps);
}

}  // namespace

PlanCommand parse_plan_command(int argc, char** argv) {
  PlanCommand command;
  Numbers numbers;
  numbers.newton_schulz_steps = command.planner.optimizer.newton_schulz_steps;
  CLI::App app(about);
  app.footer(machine_file);
  app.set_version_flag("--version", fmt::format("MatrixFSDP {}\n{}", version(), io::hdf5_description()));
  OptionReader reader(app);
  OptimizerOptions known;
  add_plan_options(reader, command, numbers, known);
  add_machine_options(reader, app, command, numbers);
  command.text_and_exit = parse_arguments(app, argc, argv);
  if (!command.text_and_exit.empty()) return command;
  known.check(command.planner.optimizer.matrices);
  validate(command.planner.optimizer.preconditioner);
  take(numbers, command);
  check(command);
  return command;
}

}  // namespace matrixfsdp::apps
