#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/plan/strategy.hpp>

#include "apps/bench/checkpoint.hpp"
#include "apps/bench/collectives.hpp"
#include "apps/bench/newton_schulz.hpp"
#include "apps/bench/optimizer_step.hpp"
#include "apps/bench/overlap.hpp"
#include "apps/bench/paper_model.hpp"
#include "apps/bench/planner.hpp"
#include "apps/bench/train_step.hpp"
#include "apps/train/version.hpp"

namespace {

std::vector<std::string> names_of_strategies() {
  std::vector<std::string> names;
  for (const matrixfsdp::StrategyKind kind : matrixfsdp::strategy_kinds())
    names.emplace_back(name_of(kind));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace matrixfsdp;
  return run_main([&]() -> int {
    bench::TrainStepOptions options;
    CLI::App app("Benchmarks. Figures are medians over rounds in which the contenders take turns.\n");
    app.set_version_flag("--version", train::version_text());
    app.require_subcommand(1);
    CLI::App* train_step = app.add_subcommand(
        "train-step",
        "Whole training steps. forward_backward_fraction and step_fraction: FLOPs of the transformer's matrix products "
        "(recomputation and the optimizer's own products not counted) over the time of forward and backward, and over "
        "the "
        "time of the whole step, as a fraction of the rate of one large sgemm in the same run.");
    train_step->add_option("--model", options.model, "Catalogue name")->capture_default_str();
    train_step->add_option("--seq-len", options.sequence_length)->check(CLI::PositiveNumber)->capture_default_str();
    train_step->add_option("--micro-batch", options.micro_batch)->check(CLI::PositiveNumber)->capture_default_str();
    train_step->add_option("--passes", options.passes, "Per step and rank")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    train_step->add_option("--optimizer", options.optimizer)
        ->check(CLI::IsMember({"muon", "adamw"}))
        ->capture_default_str();
    train_step->add_option("--strategy", options.strategies, "One or more; ratios are to the first")
        ->check(CLI::IsMember(names_of_strategies()))
        ->capture_default_str();
    train_step->add_flag("--recompute", options.recompute);
    train_step->add_option("--rounds", options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
    train_step->add_option("--threads", options.threads, "Of each rank")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    train_step->add_flag("--json", options.json);

    bench::CollectivesOptions collectives_options;
    CLI::App* collectives = app.add_subcommand(
        "collectives",
        "Unshard and reduce of one unit by each algorithm (reduce: not padded and allgatherv). ratio: seconds over "
        "those of "
        "MPI_Iallgather, or MPI_Ireduce_scatter_block, of the even split in the same run; algbw and busbw: GB/s of the "
        "unit's bytes and of (W - 1) / W of them; max_rank_bytes: the most that one rank sends or receives; wrong: "
        "elements that did not arrive (exit code 1 if any); over_best: seconds over those of the fastest of the "
        "algorithms beside it. predicted_seconds: of the model that a calibration fills at the start; auto: what the "
        "model chooses (choice), with that algorithm's time in the same rounds.");
    collectives->add_option("--operation", collectives_options.operations)
        ->check(CLI::IsMember({"unshard", "reduce"}))
        ->capture_default_str();
    collectives->add_option("--bytes", collectives_options.bytes, "Of the unit; one or more")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    collectives->add_option("--table", collectives_options.tables, "Who owns: even, seven (matrices, one a third), one")
        ->check(CLI::IsMember({"even", "seven", "one"}))
        ->capture_default_str();
    collectives->add_option("--algorithm", collectives_options.algorithms)->capture_default_str();
    collectives->add_option("--collective-profile", collectives_options.profile,
                            "File of the calibration: read if it exists, else written");
    collectives->add_option("--block", collectives_options.block_bytes, "Bytes of a message")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    collectives->add_option("--rounds", collectives_options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
    collectives->add_flag("--json", collectives_options.json);

    bench::OverlapOptions overlap_options;
    CLI::App* overlap = app.add_subcommand(
        "overlap",
        "Steps of a model whose computation is a timed wait: how much of the communication hides behind it. progress: "
        "what moves transfers meanwhile: a thread, tests every --poll-ms, or nothing. communication_ms: a step that "
        "computes nothing; over_first: step over that of the first row, in the same rounds; first_unshard_ms, "
        "last_reduce_ms: waits of root and first block, which have nothing to hide "
        "behind; bound_ms: max(compute, communication) and those; ratio: step over bound; hidden: share of the time "
        "under way in which the rank did not wait.");
    overlap->add_option("--units", overlap_options.units)->check(CLI::PositiveNumber)->capture_default_str();
    overlap->add_option("--bytes", overlap_options.bytes, "Of each unit")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    overlap->add_option("--progress", overlap_options.progress, "One or more")
        ->check(CLI::IsMember({"thread", "poll", "none"}))
        ->capture_default_str();
    overlap
        ->add_option("--matrices", overlap_options.matrices,
                     "Equal ones, of a unit; one or more. Else those of a transformer's block")
        ->check(CLI::PositiveNumber);
    overlap->add_option("--compute-ms", overlap_options.compute_milliseconds, "Of a unit's forward; backward: twice")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    overlap->add_option("--poll-ms", overlap_options.poll_milliseconds)
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    overlap->add_option("--prefetch", overlap_options.prefetch)->check(CLI::NonNegativeNumber)->capture_default_str();
    overlap->add_option("--reduces-in-flight", overlap_options.reduces_in_flight)
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    overlap->add_option("--rounds", overlap_options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
    overlap->add_flag("--json", overlap_options.json);

    bench::NewtonSchulzBenchOptions newton_schulz_options;
    CLI::App* newton_schulz =
        app.add_subcommand("newton-schulz",
                           "Orthogonalization of one matrix on one rank. ratio: how many times faster than three gemms "
                           "a step with the same "
                           "BLAS and as many steps, in the same rounds; gflops: products that it does; gemm_gflops: "
                           "rate of one gemm of the "
                           "shape of X X^T; error: relative distance (Frobenius) to the same polynomial in double.");
    newton_schulz->add_option("--shape", newton_schulz_options.shapes, "Rows and columns; one or more pairs");
    newton_schulz->add_option("--algorithm", newton_schulz_options.algorithms)->capture_default_str();
    newton_schulz->add_option("--coefficients", newton_schulz_options.coefficients)->capture_default_str();
    newton_schulz->add_option("--steps", newton_schulz_options.steps, "0: the coefficients' own number")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    newton_schulz->add_option("--threads", newton_schulz_options.threads)
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    newton_schulz->add_option("--rounds", newton_schulz_options.rounds)
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    newton_schulz->add_flag("--json", newton_schulz_options.json);

    bench::OptimizerStepOptions optimizer_options;
    CLI::App* optimizer_step = app.add_subcommand(
        "optimizer-step",
        "The optimizer's step of each strategy, on blocks of four h x h and two h x 4h matrices. ratio: over the first "
        "strategy's, in the same rounds; predicted_ms: of the time model, from this run's links and kernel rate; "
        "kernel_ms: the busiest rank's FLOPs at that rate; optimizer_bytes, predicted_bytes: sent by all ranks in one "
        "step, counted and by formula; peak_bytes: of the fullest rank, with weights, gradients and all buffers; "
        "ranks_with_matrices: by the plan; gamma: the largest of all units; kernel_gflops: of Newton-Schulz on all "
        "ranks at "
        "once; kflop_per_byte: that over the rate of a link.");
    optimizer_step->add_option("--blocks", optimizer_options.blocks)->check(CLI::PositiveNumber)->capture_default_str();
    optimizer_step->add_option("--hidden", optimizer_options.hidden)->check(CLI::PositiveNumber)->capture_default_str();
    optimizer_step->add_option("--optimizer", optimizer_options.optimizer)
        ->check(CLI::IsMember({"muon", "adamw"}))
        ->capture_default_str();
    optimizer_step->add_option("--ns-steps", optimizer_options.newton_schulz_steps)
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    optimizer_step->add_option("--strategy", optimizer_options.strategies, "One or more; ratios are to the first")
        ->capture_default_str();
    optimizer_step->add_option("--ranks", optimizer_options.ranks,
                               "Strong scaling: the first so many ranks, one number after the other; else all");
    optimizer_step->add_option("--collective-profile", optimizer_options.profile,
                               "File of the calibration: read if it exists, else written");
    optimizer_step->add_option("--rounds", optimizer_options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
    optimizer_step->add_option("--threads", optimizer_options.threads)
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    optimizer_step->add_flag("--json", optimizer_options.json);

    std::string backend = "auto";
    for (CLI::App* command : {train_step, collectives, overlap}) {
      command->add_option("--backend", backend, "What carries segments; auto: nccl where it can, else mpi")
          ->check(CLI::IsMember({"auto", "mpi", "nccl"}))
          ->capture_default_str();
    }

    bench::PlannerBenchOptions planner_options;
    CLI::App* planner = app.add_subcommand("planner",
                                           "Time of a plan for blocks of a thousand matrices, on one core "
                                           "(cpu_seconds: without what other programs took), and "
                                           "the balance that it reaches.");
    planner->add_option("--matrices", planner_options.matrices, "One or more")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    planner->add_option("--ranks", planner_options.ranks, "One or more")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    planner->add_option("--rounds", planner_options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
    planner->add_flag("--json", planner_options.json);

    bench::PaperModelOptions paper_options;
    CLI::App* paper_model = app.add_subcommand(
        "paper-model",
        "The published figures (64 A100; Gao, Xu, Zhang 2026) beside the model's. Four rates (products, "
        "orthogonalization, a rank's link inside a node and between nodes) are fitted to the rows of 1 and 2 nodes "
        "(fitted); all else is predicted: step_ms, the optimizer's; total_ms; gb_..., of a rank on 64 ranks, with "
        "embedding and head sharded, or whole with their gradients as this library's runtime has them. met: "
        "within the tolerance. fsdp2 is the published stock, fsdp2-gather gathers all matrices at once.");
    paper_model->add_flag("--json", paper_options.json);

    bench::CheckpointOptions checkpoint_options;
    CLI::App* checkpoint = app.add_subcommand(
        "checkpoint",
        "Saves and loads of weights and optimizer state. ratio: bandwidth of a synchronous save over that of a plain "
        "write and fsync of the same bytes by every rank; seconds for which a save beside training stops it, over "
        "those of one memcpy of the same bytes, with the next update at once (all must be copied), and --compute-ms "
        "after the start; seconds of a load over those of the plain write.");
    checkpoint->add_option("--bytes", checkpoint_options.bytes, "Of each rank")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    checkpoint->add_option("--compute-ms", checkpoint_options.compute_milliseconds)
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    checkpoint->add_option("--folder", checkpoint_options.folder, "Where a folder is made, and removed")
        ->capture_default_str();
    checkpoint->add_option("--rounds", checkpoint_options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
    checkpoint->add_flag("--json", checkpoint_options.json);

    std::string text;
    std::string error;
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      text = app.get_subcommands().empty() ? app.help() : app.get_subcommands().front()->help();
    } catch (const CLI::CallForVersion&) {
      text = train::version_text() + "\n";
    } catch (const CLI::ParseError& bad) {
      error = fmt::format("command line: {}; --help lists the options", bad.what());
    }
    SessionOptions session_options;
    session_options.threads = options.threads;
    Session session = Session::start(argc, argv, session_options);
    if (!error.empty()) throw InputError(error);
    if (!text.empty()) {
      if (session.world().rank() == 0) fmt::print("{}", text);
      return exit_ok;
    }
    linalg::set_threads(newton_schulz->parsed()    ? newton_schulz_options.threads
                        : optimizer_step->parsed() ? optimizer_options.threads
                                                   : options.threads);
    if (optimizer_step->parsed()) return bench::optimizer_step(session, optimizer_options);
    if (newton_schulz->parsed()) return bench::newton_schulz(session, newton_schulz_options);
    options.backend = collectives_options.backend = overlap_options.backend = train::parse_backend(backend);
    if (collectives->parsed()) return bench::collectives(session, collectives_options);
    if (checkpoint->parsed()) return bench::checkpoint(session, checkpoint_options);
    if (overlap->parsed()) return bench::overlap(session, overlap_options);
    if (planner->parsed()) return bench::planner(session, planner_options);
    if (paper_model->parsed()) return bench::paper_model(session, paper_options);
    return bench::train_step(session, options);
  });
}
