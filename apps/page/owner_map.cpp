#include "apps/page/owner_map.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "apps/page/drawing.hpp"

namespace matrixfsdp::page {
namespace {

constexpr std::size_t most_columns = 64;
constexpr std::size_t most_rows = 48;
constexpr double left = 150;

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
  Owners(const OwnerMap& map, const OwnerCell& cell)
      : map_(map),
        cell_(cell),
        rows_(std::min(map.units.size(), most_rows)),
        columns_(std::min(map.ranks, most_columns)),
        cells_(rows_ * columns_) {
    for (const OwnedMatrix& matrix : map.matrices) {
      const std::size_t row = place_of(matrix.unit, map.units.size(), rows_);
      Cell& one = cells_[row * columns_ + place_of(matrix.rank, map.ranks, columns_)];
      one.elements += matrix.elements;
      ++one.matrices;
    }
  }

  OwnerPicture draw(double y) const {
    Drawing drawing;
    double most = 0;
    for (const Cell& one : cells_)
      most = std::max(most, one.elements);
    for (std::size_t row = 0; row < rows_; ++row) {
      drawing.text(left - 8, y + cell_.height / 2 + 4, "end", row_name(row));
      for (std::size_t column = 0; column < columns_; ++column)
        draw_cell(drawing, row, column, y, most);
      y += cell_.height;
    }
    drawing.text(left, y + 14, "start", "rank 0");
    if (map_.ranks > 1) {
      drawing.text(left + std::max(static_cast<double>(columns_) * cell_.width, 90.0), y + 14, "end",
                   fmt::format("rank {}", map_.ranks - 1));
    }
    return {drawing.body(), left + static_cast<double>(columns_) * cell_.width, y + 24};
  }

 private:
  [[nodiscard]] std::string row_name(std::size_t row) const {
    const std::size_t first = first_of(row, map_.units.size(), rows_);
    const std::size_t last = first_of(row + 1, map_.units.size(), rows_) - 1;
    return first == last ? map_.units[first] : fmt::format("{} to {}", map_.units[first], map_.units[last]);
  }

  void draw_cell(Drawing& drawing, std::size_t row, std::size_t column, double y, double most) const {
    const Cell& one = cells_[row * columns_ + column];
    if (one.matrices == 0) return;
    const std::string ranks =
        range("rank", first_of(column, map_.ranks, columns_), first_of(column + 1, map_.ranks, columns_));
    // The root makes small shares visible.
    drawing.box(left + static_cast<double>(column) * cell_.width, y, cell_.width - 1, cell_.height - 1, "#1f5fa8",
                0.15 + 0.85 * std::sqrt(one.elements / most),
                fmt::format("{}: {}, {} matri{} of {:.0f} elements", row_name(row), ranks, one.matrices,
                            one.matrices == 1 ? "x" : "ces", one.elements));
  }

  const OwnerMap& map_;
  OwnerCell cell_;
  std::size_t rows_;
  std::size_t columns_;
  std::vector<Cell> cells_;
};

}  // namespace

OwnerPicture draw_owners(const OwnerMap& map, double y, const OwnerCell& cell) {
  return Owners(map, cell).draw(y);
}

}  // namespace matrixfsdp::page
