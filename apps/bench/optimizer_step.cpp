#include "apps/bench/optimizer_step.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/plan/time_model.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/bench/block_model.hpp"
#include "apps/bench/rates.hpp"
#include "apps/train/collective_profile.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;

StrategyOptions strategy_options(const OptimizerStepOptions& options) {
  StrategyOptions result;
  result.optimizer.matrices = parse_matrix_optimizer(options.optimizer);
  result.optimizer.muon.newton_schulz.steps = options.newton_schulz_steps;
  result.optimizer.workers = options.threads;
  return result;
}

OptimizerCost cost_of(const OptimizerStepOptions& options) {
  return cost_of(strategy_options(options).optimizer);
}

/// Those that are asked for, or all that can run the optimizer.
std::vector<StrategyKind> strategies_of(const OptimizerStepOptions& options) {
  std::vector<StrategyKind> kinds;
  for (const std::string& name : options.strategies)
    kinds.push_back(parse_strategy(name));
  if (!kinds.empty()) return kinds;
  for (const StrategyKind kind : strategy_kinds()) {
    if (supports(kind, parse_matrix_optimizer(options.optimizer))) kinds.push_back(kind);
  }
  return kinds;
}

/// A strategy with gradients on their owners, and what was measured of its steps.
struct Contender {
  StrategyKind kind = StrategyKind::matrix_fsdp;
  Plan plan;
  std::unique_ptr<Communicator> communicator;  ///< its own: bytes and progress thread
  std::unique_ptr<Strategy> strategy;
  std::int64_t matrices = 0;  ///< that the ranks orthogonalize in a step, all together
  std::vector<double> seconds;
  std::vector<std::int64_t> bytes;  ///< of a step, all ranks

  Contender(StrategyKind kind_, const Communicator& ranks, const ModelSpec& model, const OptimizerStepOptions& options)
      : kind(kind_), communicator(std::make_unique<Communicator>(mpi::duplicate(ranks))) {
    PlannerOptions planner;
    planner.optimizer = cost_of(options);
    plan = make_strategy_plan(kind, model, ranks.size(), planner);
    strategy = std::make_unique<Strategy>(kind, *communicator, model, plan, strategy_options(options));
    reduce_gradients();
  }

  /// All steps use these: what a step does takes as long whatever the gradients are.
  void reduce_gradients() const {
    ShardedModel& model = strategy->model();
    const CounterRandom random(1, static_cast<std::uint64_t>(communicator->rank()));
    model.begin_step();
    model.begin_pass();
    for (std::size_t unit = model.unit_count(); unit-- > 0;) {
      for (const TensorView<float>& gradient : model.gradients(unit)) {
        for (std::size_t i = 0; i < gradient.size(); ++i)
          gradient.data()[i] = static_cast<float>(random.uniform(i)) - 0.5F;
      }
      model.reduce(unit);
    }
    gradient_norm(model);
  }

  void run(std::int64_t round) {
    communicator->barrier({"benchmark round", "", ""});
    const std::int64_t before = communicator->bytes()[Purpose::optimizer];
    const auto start = Clock::now();
    const std::int64_t orthogonalized = strategy->step({1, 0.01, round + 1}).matrices_orthogonalized;
    strategy->model().complete();  // zero1-owner's new weights
    const double mine = std::chrono::duration<double>(Clock::now() - start).count();
    const double all = slowest(*communicator, mine);
    const std::int64_t sent = sum(communicator->bytes()[Purpose::optimizer] - before);
    matrices = sum(orthogonalized);
    if (round == 0) return;  // touches pages and makes connections
    seconds.push_back(all);
    bytes.push_back(sent);
  }

  /// Over all ranks.
  [[nodiscard]] std::int64_t sum(std::int64_t mine) const {
    std::int64_t all = 0;
    for (const std::int64_t one : all_gather_value(*communicator, Purpose::other, mine, {"benchmark figures", "", ""}))
      all += one;
    return all;
  }

  [[nodiscard]] std::int64_t peak_bytes() const {
    const Optimizer& optimizer = strategy->optimizer();
    const std::int64_t mine =
        strategy->model().memory().total() + optimizer.state_bytes() + optimizer.workspace_bytes();
    const auto all = all_gather_value(*communicator, Purpose::other, mine, {"benchmark bytes", "", ""});
    return *std::max_element(all.begin(), all.end());
  }
};

/// The ranks that measure, what they are, and what they reach.
struct Job {
  Communicator& ranks;
  const OptimizerStepOptions& options;
  ModelSpec model;
  CollectiveProfile links;
  Machine machine;
  double arrival_seconds;
};

std::vector<StrategyLoad> loads_of(const Job& job, const Contender& contender, const Topology& topology) {
  StrategyCostOptions cost;
  cost.memory.optimizer = cost_of(job.options);
  return strategy_loads(contender.kind, job.model, contender.plan, topology, cost);
}

double predicted_seconds(const Job& job, const Contender& contender) {
  StepOptions step;
  step.cost.memory.optimizer = cost_of(job.options);
  step.pass.unit_flops.assign(job.model.units.size(), 0);
  step.links = job.links;
  step.arrival_seconds = job.arrival_seconds;
  step.optimizer_collective = step.cost.collective;
  return predict_step(contender.kind, job.model, contender.plan, job.machine, step).optimizer_seconds;
}

nlohmann::json row_of(const Job& job, const Contender& contender, const Contender& reference,
                      const Topology& topology) {
  std::int64_t flops = 0;
  std::int64_t predicted_bytes = 0;
  std::int64_t owners = 0;
  for (const StrategyLoad& load : loads_of(job, contender, topology)) {
    flops = std::max(flops, load.flops);
    predicted_bytes += load.optimizer_bytes;
  }
  const PlanReport placed = report(job.model, contender.plan, {});
  for (const RankLoad& load : placed.ranks)
    owners += load.matrices > 0 ? 1 : 0;
  const Spread seconds = spread_of(contender.seconds);
  const double kernels = static_cast<double>(flops) / job.machine.orthogonalize_flops_per_second;
  const double predicted = predicted_seconds(job, contender);
  const auto milliseconds = [](const Spread& spread) {
    return to_json(Spread{1e3 * spread.median, 1e3 * spread.minimum, 1e3 * spread.maximum});
  };
  std::vector<double> ratios;
  for (std::size_t i = 0; i < contender.seconds.size(); ++i)
    ratios.push_back(contender.seconds[i] / reference.seconds[i]);
  return {{"world_size", job.ranks.size()},
          {"strategy", name_of(contender.kind)},
          {"optimizer", job.options.optimizer},
          {"ns_steps", job.options.newton_schulz_steps},
          {"optimizer_ms", milliseconds(seconds)},
          {"ratio", to_json(spread_of(ratios))},
          {"predicted_ms", 1e3 * predicted},
          {"over_predicted", seconds.median / predicted},
          {"kernel_ms", 1e3 * kernels},
          {"over_kernel", seconds.median / kernels},
          {"optimizer_bytes", contender.bytes.front()},
          {"predicted_bytes", predicted_bytes},
          {"peak_bytes", contender.peak_bytes()},
          {"matrices", contender.matrices},
          {"ranks_with_matrices", owners},
          {"gamma", *std::max_element(placed.gamma.begin(), placed.gamma.end())}};
}

void add_rows(Communicator& ranks, const OptimizerStepOptions& options, nlohmann::json& rows) {
  const Topology topology = mpi::topology_of(ranks);
  const CollectiveProfile profile = train::collective_profile(ranks, topology, options.profile);
  const ModelSpec model = block_model(options.blocks, options.hidden);
  std::vector<Contender> contenders;
  for (const StrategyKind kind : strategies_of(options))
    contenders.emplace_back(kind, ranks, model, options);
  std::vector<double> rates;
  std::vector<double> arrivals;
  for (std::int64_t round = 0; round <= options.rounds; ++round) {
    rates.push_back(orthogonalize_rate(ranks, model, options.newton_schulz_steps));
    arrivals.push_back(arrival_seconds(ranks, topology, profile));
    for (Contender& contender : contenders)
      contender.run(round);
  }
  const double kernel_rate = spread_of(rates).median;
  const Job job{ranks,
                options,
                model,
                profile,
                machine_of(topology, profile, {kernel_rate, kernel_rate, memory_rate(ranks)}),
                spread_of(arrivals).median};
  for (const Contender& contender : contenders) {
    nlohmann::json row = row_of(job, contender, contenders.front(), topology);
    row.update(balance_of(job.machine));
    rows.push_back(std::move(row));
  }
}

}  // namespace

int optimizer_step(Session& session, const OptimizerStepOptions& options) {
  Communicator& world = session.world();
  const std::vector<int> counts = options.ranks.empty() ? std::vector<int>{world.size()} : options.ranks;
  for (const int count : counts) {
    if (count < 1 || count > world.size())
      throw InputError(fmt::format("--ranks {}: expected 1 to {}, the ranks of this job", count, world.size()));
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const int count : counts) {
    const bool measures = world.rank() < count;
    Communicator part = mpi::split(MPI_COMM_WORLD, measures ? 0 : 1, world.rank());
    if (measures) add_rows(part, options, rows);
    world.barrier({"benchmark of some ranks", "", ""});
  }
  print("optimizer-step", session, rows, optimizer_step_columns(), options.json);
  return exit_ok;
}

std::vector<std::string> optimizer_step_columns() {
  return {"world_size",          "strategy",  "ns_steps",      "optimizer_ms",       "ratio",           "predicted_ms",
          "over_predicted",      "kernel_ms", "over_kernel",   "optimizer_bytes",    "predicted_bytes", "peak_bytes",
          "ranks_with_matrices", "gamma",     "kernel_gflops", "link_mb_per_second", "kflop_per_byte"};
}

Command add_optimizer_step(CLI::App& app) {
  const auto options = std::make_shared<OptimizerStepOptions>();
  CLI::App* command = app.add_subcommand(
      "optimizer-step",
      "The optimizer's step of each strategy, on blocks of four h x h and two h x 4h matrices. ratio: over the first "
      "strategy's, in the same rounds; predicted_ms: of the time model, from this run's links and kernel rate; "
      "kernel_ms: the busiest rank's FLOPs at that rate; optimizer_bytes, predicted_bytes: sent by all ranks in one "
      "step, counted and by formula; peak_bytes: of the fullest rank, with weights, gradients and all buffers; "
      "ranks_with_matrices: by the plan; gamma: the largest of all units; kernel_gflops: of Newton-Schulz on all "
      "ranks at "
      "once; kflop_per_byte: that over the rate of a link.");
  command->add_option("--blocks", options->blocks)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--hidden", options->hidden)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--optimizer", options->optimizer)
      ->check(CLI::IsMember(optimizer_names()))
      ->capture_default_str();
  command->add_option("--ns-steps", options->newton_schulz_steps)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--strategy", options->strategies,
                      "One or more, ratios are to the first; by default all that can run the optimizer");
  command->add_option("--ranks", options->ranks,
                      "Strong scaling: the first so many ranks, one number after the other; else all");
  command->add_option("--collective-profile", options->profile,
                      "File of the calibration: read if it exists, else written");
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--threads", options->threads)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  return make_command<OptimizerStepOptions>(command, options, &optimizer_step);
}

}  // namespace matrixfsdp::bench
