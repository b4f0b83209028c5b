#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "apps/plan/output.hpp"

namespace matrixfsdp::apps {
namespace {

std::string shown(const CollectiveChoice& choice) {
  return fmt::format("{:>14} {:>12.4g}", name_of(choice.algorithm), 1e3 * choice.seconds);
}

/// What stands behind a unit's name.
std::string columns_of(const PlanOutput& output, std::size_t unit) {
  std::string text = fmt::format("{:>8.2f}", output.report.gamma[unit]);
  if (output.profile) text += shown(output.collectives[unit].unshard) + shown(output.collectives[unit].reduce);
  return text;
}

/// Units that are alike stand in one line.
std::string units_of(const PlanOutput& output) {
  std::string text = fmt::format("\n{:<28}{:>8}", "unit", "gamma");
  text += output.profile
              ? fmt::format("{:>14} {:>12}{:>14} {:>12}\n", "unshard", "predicted ms", "reduce", "predicted ms")
              : "\n";
  const std::vector<UnitSpec>& units = output.model.units;
  for (std::size_t first = 0, next = 0; first < units.size(); first = next) {
    const std::string columns = columns_of(output, first);
    for (next = first + 1; next < units.size() && columns_of(output, next) == columns;)
      ++next;
    const std::string name =
        next - first == 1 ? units[first].name : fmt::format("{} to {}", units[first].name, units[next - 1].name);
    text += fmt::format("{:<28}{}\n", name, columns);
  }
  return text;
}

std::string measured(const std::vector<double>& seconds) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return fmt::format("matrices by measured times: the slowest rank {:.4g} ms, the fastest {:.4g}, the mean {:.4g}\n",
                     1e3 * *most, 1e3 * *least, 1e3 * sum / static_cast<double>(seconds.size()));
}

std::string predictions_of(const PlanOutput& output) {
  std::string text;
  const auto out = std::back_inserter(text);
  const Machine& machine = *output.machine;
  fmt::format_to(out,
                 "\npredicted step on {}: {} node{} x {} rank{}, {:.4g} TFLOP/s a rank ({:.4g} orthogonalizing), "
                 "links {:.4g} and {:.4g} GB/s\n",
                 machine.name, machine.nodes, machine.nodes == 1 ? "" : "s", machine.ranks_per_node,
                 machine.ranks_per_node == 1 ? "" : "s", 1e-12 * machine.gemm_flops_per_second,
                 1e-12 * machine.orthogonalize_flops_per_second, 1e-9 * machine.inside.bytes_per_second,
                 1e-9 * machine.between.bytes_per_second);
  fmt::format_to(out, "{:<16}{:>12}{:>12}{:>14}{:>12}{:>12}{:>14}{:>12}\n", "strategy", "forward ms", "backward ms",
                 "optimizer ms", "total ms", "sent MB", "optimizer MB", "memory GB");
  for (const StrategyPrediction& one : output.predictions) {
    fmt::format_to(
        out, "{:<16}{:>12.4g}{:>12.4g}{:>14.4g}{:>12.4g}{:>12.4g}{:>14.4g}{:>12.4g}{}\n", name_of(one.strategy),
        1e3 * one.forward_seconds, 1e3 * one.backward_seconds, 1e3 * one.optimizer_seconds, 1e3 * one.total_seconds(),
        1e-6 * static_cast<double>(one.bytes_per_rank), 1e-6 * static_cast<double>(one.optimizer_bytes_per_rank),
        1e-9 * static_cast<double>(one.memory_bytes), one.fits ? "" : "  does not fit");
  }
  return text;
}

}  // namespace

std::string to_text(const PlanOutput& output) {
  std::string text = to_text(output.model, output.plan, output.report) + units_of(output);
  if (!output.measured_seconds.empty()) text += measured(output.measured_seconds);
  if (output.machine) {
    text += predictions_of(output);
  } else if (!output.profile) {
    text +=
        "no times are predicted: --machine describes a machine, --collective-profile names the file of a calibration\n";
  }
  return text;
}

}  // namespace matrixfsdp::apps
