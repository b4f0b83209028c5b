#pragma once

#include <vector>

#include "plan/layout.hpp"
#include "plan/workload.hpp"

namespace matrixfsdp::detail {

/// Tails whole on single ranks: largest first to the rank with the fewest bytes.
class PackedTails {
 public:
  explicit PackedTails(const Workload& workload);

  /// Tails that no matrix exceeds in bytes: matrices are placed around them.
  void place_large(std::vector<Load>& loads) { place(loads, 0, large_); }
  void place_small(std::vector<Load>& loads) { place(loads, large_, order_.size()); }
  /// Adds the parts to their units.
  void append_to(std::vector<UnitAssignment>& units) const;

 private:
  void place(std::vector<Load>& loads, std::size_t begin, std::size_t end);

  const Workload& workload_;
  std::vector<std::size_t> order_;  ///< of tails, most bytes first
  std::vector<int> ranks_;          ///< of each tail
  std::size_t large_ = 0;           ///< number of large ones
};

/// Tails of each unit in parameter order, cut over ranks in rank order, at multiples of norm_block within a parameter.
/// No rank gets more than brings it to the level that the heaviest one has anyway (or that an even split of everything
/// reaches); below that, shares are as even as they can be, which keeps the unit's gamma low. The unit with the most
/// tail bytes comes last and fills what the others left. Adds to `loads`.
void spread_tails(const Workload& workload, std::vector<Load>& loads, std::vector<UnitAssignment>& units);

/// Shares of `amount` for ranks that carry `levels`: share_r = min(s, c - level_r), with c the smallest ceiling that
/// has room, but at least the highest level, and s the smallest bound for which the shares sum to `amount`.
std::vector<double> level_shares(const std::vector<double>& levels, double amount);

}  // namespace matrixfsdp::detail
