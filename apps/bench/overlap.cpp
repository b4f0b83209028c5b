#include "apps/bench/overlap.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/bench/block_model.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double since(Clock::time_point start) {
  return Seconds(Clock::now() - start).count();
}

/// Units of `options.bytes` each; matrices: of a unit, 0: those of a transformer's block.
ModelSpec model_of(const OverlapOptions& options, std::int64_t matrices) {
  const auto hidden = std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(options.bytes) / 48)));
  return matrices > 0 ? even_block_model(options.units, hidden, matrices) : block_model(options.units, hidden);
}

/// One way to move transfers, and what was measured of it, in seconds of each round.
struct Contender {
  std::string progress;
  std::int64_t matrices = 0;                   ///< of a unit; 0: those of a transformer's block
  double gamma = 1;                            ///< of the units, not of the root
  std::unique_ptr<Communicator> communicator;  ///< its own: a progress thread moves all that is under way on one
  std::unique_ptr<nccl::Attachment> attachment;
  std::unique_ptr<ShardedModel> model;
  bool polls = false;
  std::vector<double> communication, step, first_unshard, last_reduce, unshard_hidden, reduce_hidden, bound, ratio;
};

/// What one step took, on this rank.
struct StepTimes {
  double total = 0;
  double first_unshard = 0;  ///< of root and first block: nothing to hide behind
  double last_reduce = 0;    ///< of first block and root
};

class Step {
 public:
  Step(Contender& contender, const OverlapOptions& options, double milliseconds)
      : model_(*contender.model),
        compute_(milliseconds * 1e-3),
        poll_(contender.polls ? options.poll_milliseconds * 1e-3 : 0) {}

  StepTimes run() {
    StepTimes times;
    const auto start = Clock::now();
    model_.begin_step();
    model_.begin_pass();
    for (std::size_t u = 0; u < model_.unit_count(); ++u) {
      const auto before = Clock::now();
      model_.unshard(u, Phase::forward);
      if (u <= 1) times.first_unshard += since(before);
      if (u > 0) compute(compute_);
      model_.reshard(u);
    }
    for (std::size_t u = model_.unit_count(); u-- > 0;) {
      model_.unshard(u, Phase::backward);
      if (u > 0) compute(2 * compute_);
      model_.reshard(u);
      const auto before = Clock::now();
      model_.reduce(u);
      if (u <= 1) times.last_reduce += since(before);
    }
    times.total = since(start);
    model_.weights_changed();
    return times;
  }

 private:
  void compute(double seconds) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
    while (poll_ > 0 && Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(poll_)) < end) {
      std::this_thread::sleep_for(Seconds(poll_));
      model_.poll();
    }
    std::this_thread::sleep_until(end);
  }

  ShardedModel& model_;
  double compute_;
  double poll_;  ///< 0: a thread does it, or nobody
};

void run_round(Communicator& world, Contender& contender, const OverlapOptions& options, bool count) {
  world.barrier({"benchmark round", "", ""});
  const double communication = slowest(world, Step(contender, options, 0).run().total);
  world.barrier({"benchmark round", "", ""});
  const TransferTimes before = contender.model->transfer_times();
  const StepTimes mine = Step(contender, options, options.compute_milliseconds).run();
  const TransferTimes after = contender.model->transfer_times();
  const double step = slowest(world, mine.total);
  const double first_unshard = slowest(world, mine.first_unshard);
  const double last_reduce = slowest(world, mine.last_reduce);
  if (!count) return;
  const double compute = 3e-3 * options.compute_milliseconds * static_cast<double>(options.units);
  const double bound = std::max(compute, communication) + first_unshard + last_reduce;
  contender.communication.push_back(communication);
  contender.step.push_back(step);
  contender.first_unshard.push_back(first_unshard);
  contender.last_reduce.push_back(last_reduce);
  contender.unshard_hidden.push_back(
      hidden_share(after.unshard_under_way - before.unshard_under_way, after.unshard_waited - before.unshard_waited));
  contender.reduce_hidden.push_back(
      hidden_share(after.reduce_under_way - before.reduce_under_way, after.reduce_waited - before.reduce_waited));
  contender.bound.push_back(bound);
  contender.ratio.push_back(step / bound);
}

nlohmann::json milliseconds(std::vector<double> seconds) {
  for (double& value : seconds)
    value *= 1e3;
  return to_json(spread_of(std::move(seconds)));
}

Contender make_contender(Communicator& world, const OverlapOptions& options, std::int64_t matrices,
                         const std::string& progress) {
  const ModelSpec spec = model_of(options, matrices);
  Plan plan = make_plan(spec, world.size());
  const std::vector<double> gamma = report(spec, plan, {}).gamma;
  Contender contender;
  contender.progress = progress;
  contender.matrices = matrices;
  contender.gamma = *std::max_element(gamma.begin() + 1, gamma.end());
  contender.polls = progress == "poll";
  ShardedModelOptions sharding;
  sharding.prefetch = options.prefetch;
  sharding.reduces_in_flight = options.reduces_in_flight;
  sharding.progress_thread = progress == "thread";
  contender.communicator = std::make_unique<Communicator>(mpi::duplicate(world));
  mpi::set_gpu_aware(*contender.communicator, options.gpu_aware);
  contender.attachment =
      std::make_unique<nccl::Attachment>(train::attach_backend(*contender.communicator, options.backend));
  contender.model = std::make_unique<ShardedModel>(*contender.communicator, spec, std::move(plan), sharding);
  return contender;
}

nlohmann::json row_of(const Contender& contender, const Contender& first, const OverlapOptions& options) {
  std::vector<double> over_first;
  for (std::size_t i = 0; i < contender.step.size(); ++i)
    over_first.push_back(contender.step[i] / first.step[i]);
  return {
      {"progress", contender.progress},
      {"matrices", contender.matrices > 0 ? contender.matrices : 6},
      {"gamma", contender.gamma},
      {"compute_ms", 3 * options.compute_milliseconds * static_cast<double>(options.units)},
      {"communication_ms", milliseconds(contender.communication)},
      {"first_unshard_ms", milliseconds(contender.first_unshard)},
      {"last_reduce_ms", milliseconds(contender.last_reduce)},
      {"step_ms", milliseconds(contender.step)},
      {"over_first", to_json(spread_of(over_first))},
      {"bound_ms", milliseconds(contender.bound)},
      {"ratio", to_json(spread_of(contender.ratio))},
      {"unshard_hidden", to_json(spread_of(contender.unshard_hidden))},
      {"reduce_hidden", to_json(spread_of(contender.reduce_hidden))},
  };
}

}  // namespace

int overlap(Session& session, const OverlapOptions& options) {
  Communicator& world = session.world();
  std::vector<Contender> contenders;
  for (const std::int64_t matrices : options.matrices.empty() ? std::vector<std::int64_t>{0} : options.matrices) {
    for (const std::string& progress : options.progress)
      contenders.push_back(make_contender(world, options, matrices, progress));
  }
  if (world.rank() == 0) log_line(contenders.front().attachment->description());
  for (std::int64_t round = 0; round <= options.rounds; ++round) {  // the first one announces and warms up
    for (Contender& contender : contenders)
      run_round(world, contender, options, round > 0);
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const Contender& contender : contenders)
    rows.push_back(row_of(contender, contenders.front(), options));
  print("overlap", session, rows, overlap_columns(), options.json);
  return exit_ok;
}

std::vector<std::string> overlap_columns() {
  return {"progress", "matrices",   "gamma",    "compute_ms", "communication_ms", "first_unshard_ms", "last_reduce_ms",
          "step_ms",  "over_first", "bound_ms", "ratio",      "unshard_hidden",   "reduce_hidden"};
}

Command add_overlap(CLI::App& app) {
  const auto options = std::make_shared<OverlapOptions>();
  CLI::App* command = app.add_subcommand(
      "overlap",
      "Steps of a model whose computation is a timed wait: how much of the communication hides behind it. progress: "
      "what moves transfers meanwhile: a thread, tests every --poll-ms, or nothing. communication_ms: a step that "
      "computes nothing; over_first: step over that of the first row, in the same rounds; first_unshard_ms, "
      "last_reduce_ms: waits of root and first block, which have nothing to hide "
      "behind; bound_ms: max(compute, communication) and those; ratio: step over bound; hidden: share of the time "
      "under way in which the rank did not wait.");
  command->add_option("--units", options->units)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--bytes", options->bytes, "Of each unit")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--progress", options->progress, "One or more")
      ->check(CLI::IsMember({"thread", "poll", "none"}))
      ->capture_default_str();
  command
      ->add_option("--matrices", options->matrices,
                   "Equal ones, of a unit; one or more. Else those of a transformer's block")
      ->check(CLI::PositiveNumber);
  command->add_option("--compute-ms", options->compute_milliseconds, "Of a unit's forward; backward: twice")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--poll-ms", options->poll_milliseconds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--prefetch", options->prefetch)->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--reduces-in-flight", options->reduces_in_flight)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  add_backend(*command, options->backend, options->gpu_aware);
  return make_command<OverlapOptions>(command, options, &overlap);
}

}  // namespace matrixfsdp::bench
