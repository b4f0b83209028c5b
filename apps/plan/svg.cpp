#include "apps/plan/svg.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "apps/page/drawing.hpp"
#include "apps/page/owner_map.hpp"

namespace matrixfsdp::apps {
namespace {

constexpr double left = 150;
constexpr double bar_width = 640;
constexpr double bar_height = 18;
constexpr double right_margin = 130;  // for the text behind bars

using page::Drawing;

std::string framed(const Drawing& drawing, double width, double height) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
      width, height, drawing.body());
}

page::OwnerMap owners_of(const PlanOutput& output) {
  page::OwnerMap map;
  map.ranks = static_cast<std::size_t>(output.plan.world_size);
  for (std::size_t u = 0; u < output.model.units.size(); ++u) {
    const UnitSpec& unit = output.model.units[u];
    map.units.push_back(unit.name);
    for (const Segment& segment : output.plan.units[u].weights.segments) {
      if (kind_of(unit.parameters[segment.parameter]) != ParameterKind::matrix) continue;
      map.matrices.push_back({u, static_cast<std::size_t>(segment.rank), static_cast<double>(segment.elements.size())});
    }
  }
  return map;
}

struct Phase {
  const char* name;
  const char* color;
  double StrategyPrediction::*seconds;
};
constexpr std::array<Phase, 3> phases{Phase{"forward", "#2a9d8f", &StrategyPrediction::forward_seconds},
                                      Phase{"backward", "#e9a23b", &StrategyPrediction::backward_seconds},
                                      Phase{"optimizer", "#c8553d", &StrategyPrediction::optimizer_seconds}};

double draw_legend(Drawing& drawing, double y) {
  double x = left;
  for (const Phase& phase : phases) {
    drawing.box(x, y, 12, 12, phase.color, 1, phase.name);
    drawing.text(x + 16, y + 10, "start", phase.name);
    x += 100;
  }
  return y + 22;
}

double draw_predictions(Drawing& drawing, const std::vector<StrategyPrediction>& predictions, double y) {
  double most = 0;
  for (const StrategyPrediction& one : predictions)
    most = std::max(most, one.total_seconds());
  for (const StrategyPrediction& one : predictions) {
    drawing.text(left - 8, y + 13, "end", name_of(one.strategy));
    double x = left;
    for (const Phase& phase : phases) {
      const double seconds = one.*phase.seconds;
      const double width = most > 0 ? bar_width * seconds / most : 0;
      drawing.box(x, y, width, bar_height, phase.color, 1,
                  fmt::format("{}: {} {:.4g} ms", name_of(one.strategy), phase.name, 1e3 * seconds));
      x += width;
    }
    drawing.text(x + 6, y + 13, "start",
                 fmt::format("{:.4g} ms{}", 1e3 * one.total_seconds(), one.fits ? "" : ", does not fit"));
    y += bar_height + 6;
  }
  return y;
}

}  // namespace

std::string to_svg(const PlanOutput& output) {
  Drawing drawing;
  drawing.text(16, 24, "start",
               fmt::format("{} on {} rank{}, planner {}", output.name, output.plan.world_size,
                           output.plan.world_size == 1 ? "" : "s", output.plan.planner),
               15);
  drawing.text(16, 42, "start",
               fmt::format("imbalance of bytes {:.3f}, of optimizer work {:.3f}; {} spare ranks own no matrix",
                           output.report.imbalance_bytes, output.report.imbalance_flops, output.report.spare_ranks));
  drawing.text(16, 66, "start", "Who owns which units' matrices (darker: more)", 13);
  const page::OwnerPicture owners = page::draw_owners(owners_of(output), 76);
  drawing.add(owners.svg);
  double y = owners.end;
  double width = owners.width;
  if (!output.predictions.empty()) {
    y += 16;
    drawing.text(16, y, "start", fmt::format("Predicted step on {}", output.machine->name), 13);
    y = draw_predictions(drawing, output.predictions, draw_legend(drawing, y + 10));
    width = std::max(width, left + bar_width + right_margin);
  }
  return framed(drawing, std::max(width + 16, 520.0), y + 16);
}

}  // namespace matrixfsdp::apps
