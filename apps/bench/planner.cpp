#include "apps/bench/planner.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "apps/bench/benchmark.hpp"

namespace matrixfsdp::bench {
namespace {

/// Blocks of a thousand matrices, the experts of a mixture: two of three are h x h, the others h x 4h.
ModelSpec model_of(std::int64_t matrices) {
  constexpr std::int64_t h = 1024;
  constexpr std::int64_t experts = 1000;
  ModelSpec model;
  for (std::int64_t left = matrices; left > 0; left -= experts) {
    UnitSpec unit{fmt::format("block.{}", model.units.size()), {}, false};
    for (std::int64_t m = 0; m < std::min(left, experts); ++m) {
      ParameterSpec& parameter = unit.parameters.emplace_back();
      parameter.name = fmt::format("{}.{}", unit.name, m);
      parameter.shape = {h, m % 3 < 2 ? h : 4 * h};
    }
    model.units.push_back(std::move(unit));
  }
  return model;
}

/// Most bytes and FLOPs of a rank over the mean.
struct Balance {
  double bytes = 1;
  double flops = 1;
};

Balance balance_of(const ModelSpec& model, const Plan& plan) {
  std::vector<double> bytes(static_cast<std::size_t>(plan.world_size), 0.0);
  std::vector<double> flops(bytes.size(), 0.0);
  Balance total{0, 0};
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    for (const Segment& segment : plan.units[u].weights.segments) {
      const ParameterSpec& parameter = model.units[u].parameters[segment.parameter];
      const auto held = static_cast<double>(resident_bytes(parameter, segment.elements.size(), {}));
      const auto work = static_cast<double>(step_flops(parameter, {}));
      bytes[static_cast<std::size_t>(segment.rank)] += held;
      flops[static_cast<std::size_t>(segment.rank)] += work;
      total.bytes += held;
      total.flops += work;
    }
  }
  const double ranks = plan.world_size;
  return {*std::max_element(bytes.begin(), bytes.end()) * ranks / total.bytes,
          *std::max_element(flops.begin(), flops.end()) * ranks / total.flops};
}

}  // namespace

int planner(Session& session, const PlannerBenchOptions& options) {
  nlohmann::json rows = nlohmann::json::array();
  // One core: other ranks, where there are any, wait.
  for (const std::int64_t matrices : session.world().rank() == 0 ? options.matrices : std::vector<std::int64_t>{}) {
    const ModelSpec model = model_of(matrices);
    for (const int ranks : options.ranks) {
      std::vector<double> seconds;
      std::vector<double> cpu_seconds;
      Balance balance;
      for (std::int64_t round = 0; round < options.rounds; ++round) {
        const auto start = std::chrono::steady_clock::now();
        const std::clock_t cpu_start = std::clock();
        const Plan plan = make_plan(model, ranks);
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        cpu_seconds.push_back(static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
        balance = balance_of(model, plan);
      }
      rows.push_back({{"matrices", matrix_count(model)},
                      {"ranks", ranks},
                      {"seconds", to_json(spread_of(seconds))},
                      {"cpu_seconds", to_json(spread_of(cpu_seconds))},
                      {"imbalance_bytes", balance.bytes},
                      {"imbalance_flops", balance.flops}});
    }
  }
  print("planner", session, rows, {"matrices", "ranks", "seconds", "cpu_seconds", "imbalance_bytes", "imbalance_flops"},
        options.json);
  return exit_ok;
}

Command add_planner(CLI::App& app) {
  const auto options = std::make_shared<PlannerBenchOptions>();
  CLI::App* command = app.add_subcommand("planner",
                                         "Time of a plan for blocks of a thousand matrices, on one core "
                                         "(cpu_seconds: without what other programs took), and "
                                         "the balance that it reaches.");
  command->add_option("--matrices", options->matrices, "One or more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "One or more")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  return make_command<PlannerBenchOptions>(command, options, &planner);
}

}  // namespace matrixfsdp::bench
