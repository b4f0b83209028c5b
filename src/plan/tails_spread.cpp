#include <algorithm>
#include <span>

#include "plan/tails.hpp"

namespace matrixfsdp::detail {
namespace {

/// Smallest bound s for which sum of min(s, room_r) over ranks is `amount`.
double even_bound(std::vector<double> room, double amount) {
  std::sort(room.begin(), room.end());
  for (std::size_t i = 0; i < room.size(); ++i) {
    const double ranks = static_cast<double>(room.size() - i);
    if (room[i] * ranks >= amount) return amount / ranks;
    amount -= room[i];
  }
  return room.back();
}

/// Smallest ceiling, not below the highest level, under which there is room for `amount`.
double ceiling(std::vector<double> levels, double amount) {
  std::sort(levels.begin(), levels.end());
  double below = 0;  // sum of the levels that the amount covers
  for (std::size_t i = 0; i < levels.size(); ++i) {
    below += levels[i];
    const double water = (amount + below) / static_cast<double>(i + 1);
    if (i + 1 == levels.size() || water <= levels[i + 1]) return std::max(water, levels.back());
  }
  return 0;
}

/// Bytes of the tails of one unit in parameter order, as one line that is cut over ranks.
class Line {
 public:
  Line(std::span<const Item> tails, UnitAssignment& unit) : tails_(tails), unit_(unit) {}

  /// Gives `rank` everything from the last cut to the norm block boundary nearest to byte `position`; returns the load.
  Load cut(double position, int rank) {
    Load load;
    while (tail_ < tails_.size()) {
      const Item& tail = tails_[tail_];
      const std::int64_t bytes_each = tail.load.bytes / tail.elements;
      const std::int64_t end = boundary(tail.elements, (position - start_) / static_cast<double>(bytes_each));
      if (end > begin_) {
        unit_.tails.push_back({tail.parameter, {begin_, end}, rank});
        load += {bytes_each * (end - begin_), tail.load.flops / tail.elements * (end - begin_)};
        begin_ = end;
      }
      if (begin_ < tail.elements) break;
      start_ += static_cast<double>(tail.load.bytes);
      begin_ = 0;
      ++tail_;
    }
    return load;
  }

 private:
  static std::int64_t boundary(std::int64_t elements, double wanted) {
    if (wanted <= 0) return 0;
    if (wanted >= static_cast<double>(elements)) return elements;
    const std::int64_t low = static_cast<std::int64_t>(wanted) / norm_block * norm_block;
    const std::int64_t high = std::min(low + norm_block, elements);
    return wanted - static_cast<double>(low) > static_cast<double>(high) - wanted ? high : low;
  }

  std::span<const Item> tails_;
  UnitAssignment& unit_;
  std::size_t tail_ = 0;    ///< the tail that the last cut is in
  std::int64_t begin_ = 0;  ///< its first element that has no rank yet
  double start_ = 0;        ///< its first byte on the line
};

struct UnitTails {
  std::span<const Item> tails;
  std::int64_t bytes = 0;
};

std::vector<UnitTails> by_unit(const Workload& workload) {
  std::vector<UnitTails> units;
  for (std::size_t begin = 0; begin < workload.tails.size();) {
    std::size_t end = begin;
    std::int64_t bytes = 0;
    for (; end < workload.tails.size() && workload.tails[end].unit == workload.tails[begin].unit; ++end)
      bytes += workload.tails[end].load.bytes;
    units.push_back({std::span(workload.tails).subspan(begin, end - begin), bytes});
    begin = end;
  }
  std::stable_sort(units.begin(), units.end(),
                   [](const UnitTails& a, const UnitTails& b) { return a.bytes < b.bytes; });
  return units;
}

}  // namespace

std::vector<double> level_shares(const std::vector<double>& levels, double amount) {
  const double top = ceiling(levels, amount);
  std::vector<double> shares;
  shares.reserve(levels.size());
  for (const double level : levels)
    shares.push_back(top - level);
  const double bound = even_bound(shares, amount);
  for (double& share : shares)
    share = std::min(share, bound);
  return shares;
}

void spread_tails(const Workload& workload, std::vector<Load>& loads, std::vector<UnitAssignment>& units) {
  // Slower ranks stand higher from the start, so that a level surface is everybody's share.
  double most = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank)
    most = std::max(most, workload.share(rank));
  for (const UnitTails& unit : by_unit(workload)) {
    std::vector<double> levels;
    levels.reserve(loads.size());
    for (std::size_t rank = 0; rank < loads.size(); ++rank)
      levels.push_back(static_cast<double>(loads[rank].bytes) + most - workload.share(rank));
    const std::vector<double> shares = level_shares(levels, static_cast<double>(unit.bytes));
    Line line(unit.tails, units[unit.tails.front().unit]);
    double position = 0;
    for (std::size_t rank = 0; rank < loads.size(); ++rank) {
      const bool last = rank + 1 == loads.size();
      position = last ? static_cast<double>(unit.bytes) : position + shares[rank];
      loads[rank] += line.cut(position, static_cast<int>(rank));
    }
  }
}

}  // namespace matrixfsdp::detail
