#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include <matrixfsdp/plan/report.hpp>

namespace matrixfsdp {
namespace {

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::string gigaflops(std::int64_t flops) {
  return fmt::format("{:.3f}", static_cast<double>(flops) * 1e-9);
}

}  // namespace

std::string to_text(const ModelSpec& model, const Plan& plan, const PlanReport& report, int lines) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "planner {}, {} rank{}, {} units, {} elements, {} matrices per step\n", plan.planner,
                 plan.world_size, plan.world_size == 1 ? "" : "s", model.units.size(), element_count(model),
                 matrix_count(model));
  fmt::format_to(out, "{:<16} {:>14} {:>14}\n", "imbalance", "achieved", "lower bound");
  fmt::format_to(out, "{:<16} {:>14.4f} {:>14.4f}\n", "bytes", report.imbalance_bytes, report.lower_bound_bytes);
  fmt::format_to(out, "{:<16} {:>14.4f} {:>14.4f}\n", "optimizer work", report.imbalance_flops,
                 report.lower_bound_flops);
  if (!report.gamma.empty()) {
    const auto [least, most] = std::minmax_element(report.gamma.begin(), report.gamma.end());
    fmt::format_to(out, "gamma of a unit: {:.2f} to {:.2f}\n", *least, *most);
  }
  fmt::format_to(out, "full replication needs {} MiB on every rank\n", mebibytes(report.replicated_bytes));
  if (report.spare_ranks > 0) fmt::format_to(out, "{} spare ranks own no matrix\n", report.spare_ranks);

  fmt::format_to(out, "{:>6} {:>14} {:>14} {:>14} {:>9}\n", "rank", "owned MiB", "window MiB", "step GFLOP",
                 "matrices");
  const std::size_t shown = std::min(report.ranks.size(), static_cast<std::size_t>(std::max(lines, 0)));
  for (std::size_t i = 0; i < shown; ++i) {
    const RankLoad& load = report.ranks[i];
    fmt::format_to(out, "{:>6} {:>14} {:>14} {:>14} {:>9}\n", load.rank, mebibytes(load.owned_bytes),
                   mebibytes(load.window_bytes), gigaflops(load.flops), load.matrices);
  }
  if (shown < report.ranks.size()) fmt::format_to(out, "{:>6} {} more ranks\n", "...", report.ranks.size() - shown);
  return text;
}

}  // namespace matrixfsdp
