#include <algorithm>
#include <numeric>

#include "plan/policies.hpp"
#include "plan/rank_order.hpp"

namespace matrixfsdp::detail {
namespace {

RankOrder order_by_bytes(const std::vector<Load>& loads) {
  std::vector<double> keys;
  keys.reserve(loads.size());
  for (const Load load : loads)
    keys.push_back(static_cast<double>(load.bytes));
  return RankOrder(std::move(keys));
}

void place(const Workload& workload, std::size_t matrix, int rank, Assignment& result, RankOrder& order) {
  result.owners[matrix] = rank;
  Load& load = result.loads[static_cast<std::size_t>(rank)];
  load += workload.matrices[matrix].load;
  order.set(rank, static_cast<double>(load.bytes));
}

/// Indices of [begin, end), most bytes first.
std::vector<std::size_t> largest_first(const Workload& workload, std::size_t begin, std::size_t end) {
  std::vector<std::size_t> indices(end - begin);
  std::iota(indices.begin(), indices.end(), begin);
  std::stable_sort(indices.begin(), indices.end(), [&workload](std::size_t a, std::size_t b) {
    return workload.matrices[a].load.bytes > workload.matrices[b].load.bytes;
  });
  return indices;
}

}  // namespace

Assignment assign_by_role(const Workload& workload, const std::vector<Load>& base) {
  Assignment result{std::vector<int>(workload.matrices.size(), 0), base};
  RankOrder order = order_by_bytes(base);
  std::vector<bool> used(base.size(), false);
  for (std::size_t begin = 0; begin < workload.matrices.size();) {
    const std::size_t unit = workload.matrices[begin].unit;
    const std::size_t end = begin + static_cast<std::size_t>(workload.matrices_of_unit[unit]);
    for (const std::size_t matrix : largest_first(workload, begin, end)) {
      int rank = order.lightest();
      if (workload.spreads(unit)) {
        for (const auto& [bytes, candidate] : order.order()) {
          rank = candidate;
          if (!used[static_cast<std::size_t>(candidate)]) break;
        }
      }
      used[static_cast<std::size_t>(rank)] = true;
      place(workload, matrix, rank, result, order);
    }
    for (; begin < end; ++begin)
      used[static_cast<std::size_t>(result.owners[begin])] = false;
  }
  return result;
}

Assignment assign_by_scope(const Workload& workload, const std::vector<Load>& base) {
  Assignment result{std::vector<int>(workload.matrices.size(), 0), base};
  RankOrder order = order_by_bytes(base);
  for (const std::size_t matrix : largest_first(workload, 0, workload.matrices.size()))
    place(workload, matrix, order.lightest(), result, order);
  return result;
}

}  // namespace matrixfsdp::detail
