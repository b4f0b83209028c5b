#include "apps/plan/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "apps/escaped.hpp"

namespace matrixfsdp::apps {
namespace {

constexpr int most_columns = 64;
constexpr int most_rows = 48;
constexpr double left = 150;
constexpr double cell = 12;
constexpr double bar_width = 640;
constexpr double bar_height = 18;
constexpr double right_margin = 130;  // for the text behind bars

/// A picture that grows downwards.
class Drawing {
 public:
  void text(double x, double y, std::string_view anchor, std::string_view text, int size = 11) {
    fmt::format_to(out_, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
                   anchor, size, escaped(text));
  }
  void box(double x, double y, double width, double height, std::string_view color, double opacity,
           std::string_view title) {
    fmt::format_to(out_,
                   "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
                   "fill-opacity=\"{:.3f}\"><title>{}</title></rect>\n",
                   x, y, width, height, color, opacity, escaped(title));
  }
  [[nodiscard]] std::string finished(double width, double height) const {
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        width, height, body_);
  }

 private:
  std::string body_;
  std::back_insert_iterator<std::string> out_{body_};
};

/// Matrices of some units on some ranks.
struct Cell {
  double elements = 0;
  std::int64_t matrices = 0;
};

/// `count` things drawn in `drawn` places: the first of place `i`.
std::size_t first_of(std::size_t i, std::size_t count, std::size_t drawn) {
  return i * count / drawn;
}

std::size_t place_of(std::size_t thing, std::size_t count, std::size_t drawn) {
  std::size_t place = thing * drawn / count;
  while (place + 1 < drawn && first_of(place + 1, count, drawn) <= thing)
    ++place;
  return place;
}

std::string range(std::string_view what, std::size_t first, std::size_t end) {
  return end - first == 1 ? fmt::format("{} {}", what, first) : fmt::format("{}s {} to {}", what, first, end - 1);
}

class Owners {
 public:
  explicit Owners(const PlanOutput& output)
      : output_(output),
        units_(output.model.units.size()),
        ranks_(static_cast<std::size_t>(output.plan.world_size)),
        rows_(std::min<std::size_t>(units_, most_rows)),
        columns_(std::min<std::size_t>(ranks_, most_columns)),
        cells_(rows_ * columns_) {
    for (std::size_t u = 0; u < units_; ++u)
      add_unit(u);
  }

  /// Returns where it ends.
  double draw(Drawing& drawing, double y) const {
    double most = 0;
    for (const Cell& one : cells_)
      most = std::max(most, one.elements);
    for (std::size_t row = 0; row < rows_; ++row) {
      drawing.text(left - 8, y + cell - 2, "end", row_name(row));
      for (std::size_t column = 0; column < columns_; ++column)
        draw_cell(drawing, row, column, y, most);
      y += cell;
    }
    drawing.text(left, y + 14, "start", "rank 0");
    drawing.text(left + static_cast<double>(columns_) * cell, y + 14, "end", fmt::format("rank {}", ranks_ - 1));
    return y + 24;
  }
  [[nodiscard]] double width() const { return left + static_cast<double>(columns_) * cell; }

 private:
  void add_unit(std::size_t unit) {
    const std::vector<ParameterSpec>& parameters = output_.model.units[unit].parameters;
    for (const Segment& segment : output_.plan.units[unit].weights.segments) {
      if (kind_of(parameters[segment.parameter]) != ParameterKind::matrix) continue;
      const std::size_t row = place_of(unit, units_, rows_);
      const std::size_t column = place_of(static_cast<std::size_t>(segment.rank), ranks_, columns_);
      Cell& one = cells_[row * columns_ + column];
      one.elements += static_cast<double>(segment.elements.size());
      ++one.matrices;
    }
  }

  [[nodiscard]] std::string row_name(std::size_t row) const {
    const std::size_t first = first_of(row, units_, rows_);
    const std::size_t last = first_of(row + 1, units_, rows_) - 1;
    const std::vector<UnitSpec>& units = output_.model.units;
    return first == last ? units[first].name : fmt::format("{} to {}", units[first].name, units[last].name);
  }

  void draw_cell(Drawing& drawing, std::size_t row, std::size_t column, double y, double most) const {
    const Cell& one = cells_[row * columns_ + column];
    if (one.matrices == 0) return;
    const std::string ranks = range("rank", first_of(column, ranks_, columns_), first_of(column + 1, ranks_, columns_));
    // The root makes small shares visible.
    drawing.box(left + static_cast<double>(column) * cell, y, cell - 1, cell - 1, "#1f5fa8",
                0.15 + 0.85 * std::sqrt(one.elements / most),
                fmt::format("{}: {}, {} matri{} of {:.0f} elements", row_name(row), ranks, one.matrices,
                            one.matrices == 1 ? "x" : "ces", one.elements));
  }

  const PlanOutput& output_;
  std::size_t units_;
  std::size_t ranks_;
  std::size_t rows_;
  std::size_t columns_;
  std::vector<Cell> cells_;
};

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
  const Owners owners(output);
  drawing.text(16, 24, "start",
               fmt::format("{} on {} rank{}, planner {}", output.name, output.plan.world_size,
                           output.plan.world_size == 1 ? "" : "s", output.plan.planner),
               15);
  drawing.text(16, 42, "start",
               fmt::format("imbalance of bytes {:.3f}, of optimizer work {:.3f}; {} spare ranks own no matrix",
                           output.report.imbalance_bytes, output.report.imbalance_flops, output.report.spare_ranks));
  drawing.text(16, 66, "start", "Who owns which units' matrices (darker: more)", 13);
  double y = owners.draw(drawing, 76);
  double width = owners.width();
  if (!output.predictions.empty()) {
    y += 16;
    drawing.text(16, y, "start", fmt::format("Predicted step on {}", output.machine->name), 13);
    y = draw_predictions(drawing, output.predictions, draw_legend(drawing, y + 10));
    width = std::max(width, left + bar_width + right_margin);
  }
  return drawing.finished(std::max(width + 16, 520.0), y + 16);
}

}  // namespace matrixfsdp::apps
