#include "apps/bench/paper_model.hpp"

#include <cmath>
#include <functional>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/log.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/bench/paper_table.hpp"

namespace matrixfsdp::bench {
namespace {

/// Where `figure`, which falls with x, is `target`; x from 1e6 to 1e18.
double solve(double target, const std::function<double(double)>& figure) {
  double low = std::log(1e6);
  double high = std::log(1e18);
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = 0.5 * (low + high);
    (figure(std::exp(middle)) > target ? low : high) = middle;
  }
  return std::exp(0.5 * (low + high));
}

/// One of the rates of a machine.
using Rate = std::function<void(Machine&, double)>;

class Calibration {
 public:
  /// A hop's latency cannot be told from two rows: none. Links work at the rate of a ring's hop; between nodes each
  /// rank has an adapter of its own.
  explicit Calibration(int newton_schulz_steps) : steps_(newton_schulz_steps), machine_(machine_preset("a100-8x8")) {
    machine_.inside.latency_seconds = machine_.between.latency_seconds = 0;
    const std::vector<PaperStep> rows = paper_steps();
    const PaperStep& one = rows[0];
    const PaperStep& two = rows[1];
    fit({{one, StrategyKind::matrix_fsdp, false}, {two, StrategyKind::matrix_fsdp, false}},
        [](Machine& machine, double rate) { machine.orthogonalize_flops_per_second = rate; });
    fit({{one, StrategyKind::fsdp2, false}}, [](Machine& machine, double rate) { set_link(machine.inside, rate); });
    fit({{two, StrategyKind::fsdp2, false}}, [](Machine& machine, double rate) { set_link(machine.between, rate); });
    fit({{one, StrategyKind::matrix_fsdp, true},
         {one, StrategyKind::fsdp2, true},
         {two, StrategyKind::matrix_fsdp, true},
         {two, StrategyKind::fsdp2, true}},
        [](Machine& machine, double rate) { machine.gemm_flops_per_second = rate; });
  }

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] StrategyPrediction predict(const PaperStep& row, StrategyKind kind) const {
    return predict(machine_, row, kind);
  }

 private:
  struct Figure {
    PaperStep row;
    StrategyKind kind;
    bool total;  ///< without the optimizer's step; else that
  };

  static void set_link(MachineLink& link, double rate) { link = {link.latency_seconds, rate, 8 * rate}; }

  static double published(const Figure& figure) {
    const bool stock = figure.kind == StrategyKind::fsdp2;
    const double step = stock ? figure.row.stock_step : figure.row.matrix_step;
    const double total = stock ? figure.row.stock_total : figure.row.matrix_total;
    return figure.total ? total - step : step;
  }

  [[nodiscard]] StrategyPrediction predict(const Machine& machine, const PaperStep& row, StrategyKind kind) const {
    const PaperModel model = reference_model(row.blocks);
    const Machine nodes = resized(machine, row.nodes, machine.ranks_per_node);
    const Plan plan = make_strategy_plan(kind, model.spec, static_cast<int>(nodes.ranks()));
    return predict_step(kind, model.spec, plan, nodes, paper_options(model, steps_));
  }

  /// The rate with which the figures are right on (geometric) average.
  void fit(const std::vector<Figure>& figures, const Rate& set) {
    const double rate = solve(0, [&](double trial) {
      Machine machine = machine_;
      set(machine, trial);
      double sum = 0;
      for (const Figure& figure : figures) {
        const StrategyPrediction one = predict(machine, figure.row, figure.kind);
        const double seconds = figure.total ? one.forward_seconds + one.backward_seconds : one.optimizer_seconds;
        sum += std::log(1e3 * seconds / published(figure));
      }
      return sum;
    });
    set(machine_, rate);
  }

  int steps_;
  Machine machine_;
};

nlohmann::json row_of(const std::string& figure, const std::string& model, int nodes, StrategyKind kind,
                      double published, double predicted, double tolerance) {
  const double ratio = predicted / published;
  return {{"figure", figure},
          {"model", model},
          {"nodes", nodes},
          {"strategy", name_of(kind)},
          {"published", published},
          {"predicted", predicted},
          {"ratio", ratio},
          {"tolerance", tolerance},
          {"met", std::abs(ratio - 1) <= tolerance}};
}

void add_steps(int newton_schulz_steps, const Calibration& calibration, nlohmann::json& rows) {
  constexpr double tolerance = 0.20;
  const std::vector<PaperStep> published = paper_steps();
  for (std::size_t i = 0; i < published.size(); ++i) {
    const PaperStep& row = published[i];
    const std::string model = fmt::format("{} blocks", row.blocks);
    for (const StrategyKind kind : {StrategyKind::fsdp2, StrategyKind::matrix_fsdp}) {
      const bool stock = kind == StrategyKind::fsdp2;
      const StrategyPrediction one = calibration.predict(row, kind);
      const auto add = [&](const char* figure, double figure_published, double seconds) {
        nlohmann::json made = row_of(figure, model, row.nodes, kind, figure_published, 1e3 * seconds, tolerance);
        made["ns_steps"] = newton_schulz_steps;
        made["fitted"] = i < paper_calibration_rows;
        rows.push_back(made);
      };
      add("step_ms", stock ? row.stock_step : row.matrix_step, one.optimizer_seconds);
      add("total_ms", stock ? row.stock_total : row.matrix_total, one.total_seconds());
    }
  }
}

void add_memory(const Machine& machine, Tables tables, nlohmann::json& rows) {
  constexpr double tolerance = 0.15;
  constexpr int newton_schulz_steps = 2;
  for (const PaperMemory& published : paper_memory()) {
    const PaperModel model = sized_model(published.model, tables);
    const Plan plan = make_strategy_plan(published.strategy, model.spec, paper_memory_ranks);
    const StrategyPrediction one =
        predict_step(published.strategy, model.spec, plan, machine, paper_options(model, newton_schulz_steps));
    nlohmann::json made =
        row_of(tables == Tables::whole ? "gb_tables_whole" : "gb_tables_sharded", published.model, machine.nodes,
               published.strategy, 1e-9 * published.bytes, 1e-9 * static_cast<double>(one.memory_bytes), tolerance);
    made["ns_steps"] = newton_schulz_steps;
    made["fitted"] = false;
    rows.push_back(made);
  }
}

void tell(int newton_schulz_steps, const Machine& machine) {
  constexpr double peak = 312e12;  // of an A100's bfloat16, as its maker names it
  log_line(fmt::format(
      "{} Newton-Schulz steps, fitted to 1 and 2 nodes: products {:.4g} TFLOP/s, orthogonalization {:.4g}"
      "{}; a rank's link {:.4g} GB/s inside a node, {:.4g} between",
      newton_schulz_steps, 1e-12 * machine.gemm_flops_per_second, 1e-12 * machine.orthogonalize_flops_per_second,
      machine.orthogonalize_flops_per_second > peak ? " (more than the device has: not so many steps)" : "",
      1e-9 * machine.inside.bytes_per_second, 1e-9 * machine.between.bytes_per_second));
}

}  // namespace

int paper_model(Session& session, const PaperModelOptions& options) {
  nlohmann::json rows = nlohmann::json::array();
  for (const int newton_schulz_steps : {2, 5}) {
    const Calibration calibration(newton_schulz_steps);
    if (session.world().rank() == 0) tell(newton_schulz_steps, calibration.machine());
    add_steps(newton_schulz_steps, calibration, rows);
    if (newton_schulz_steps != 2) continue;
    for (const Tables tables : {Tables::sharded, Tables::whole})
      add_memory(calibration.machine(), tables, rows);
  }
  print("paper-model", session, rows, paper_model_columns(), options.json);
  return exit_ok;
}

std::vector<std::string> paper_model_columns() {
  return {"figure",    "model", "nodes",  "ns_steps",  "strategy", "published",
          "predicted", "ratio", "fitted", "tolerance", "met"};
}

Command add_paper_model(CLI::App& app) {
  const auto options = std::make_shared<PaperModelOptions>();
  CLI::App* command = app.add_subcommand(
      "paper-model",
      "The published figures (64 A100; Gao, Xu, Zhang 2026) beside the model's. Four rates (products, "
      "orthogonalization, a rank's link inside a node and between nodes) are fitted to the rows of 1 and 2 nodes "
      "(fitted); all else is predicted: step_ms, the optimizer's; total_ms; gb_..., of a rank on 64 ranks, with "
      "embedding and head sharded, or whole with their gradients as this library's runtime has them. met: "
      "within the tolerance. fsdp2 is the published stock, fsdp2-gather gathers all matrices at once.");
  command->add_flag("--json", options->json);
  return make_command<PaperModelOptions>(command, options, &paper_model);
}

}  // namespace matrixfsdp::bench
