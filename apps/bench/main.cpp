#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "apps/bench/checkpoint.hpp"
#include "apps/bench/collectives.hpp"
#include "apps/bench/overlap.hpp"
#include "apps/bench/train_step.hpp"
#include "apps/train/version.hpp"

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
        ->check(CLI::IsMember({"matrix-fsdp", "ddp"}))
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
        "Unshard and reduce of one unit by each algorithm (reduce: direct and scatter). ratio: seconds over those of "
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
        "computes nothing; first_unshard_ms, last_reduce_ms: waits of root and first block, which have nothing to hide "
        "behind; bound_ms: max(compute, communication) and those; ratio: step over bound; hidden: share of the time "
        "under way in which the rank did not wait.");
    overlap->add_option("--units", overlap_options.units)->check(CLI::PositiveNumber)->capture_default_str();
    overlap->add_option("--bytes", overlap_options.bytes, "Of each unit")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
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
    linalg::set_threads(options.threads);
    if (collectives->parsed()) return bench::collectives(session, collectives_options);
    if (checkpoint->parsed()) return bench::checkpoint(session, checkpoint_options);
    if (overlap->parsed()) return bench::overlap(session, overlap_options);
    return bench::train_step(session, options);
  });
}
