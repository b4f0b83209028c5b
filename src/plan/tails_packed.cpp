#include <algorithm>
#include <numeric>

#include "plan/rank_order.hpp"
#include "plan/tails.hpp"

namespace matrixfsdp::detail {

PackedTails::PackedTails(const Workload& workload)
    : workload_(workload), order_(workload.tails.size()), ranks_(workload.tails.size(), 0) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&workload](std::size_t a, std::size_t b) {
    return workload.tails[a].load.bytes > workload.tails[b].load.bytes;
  });
  std::int64_t largest_matrix = 0;
  for (const Item& matrix : workload.matrices)
    largest_matrix = std::max(largest_matrix, matrix.load.bytes);
  while (large_ < order_.size() && workload.tails[order_[large_]].load.bytes >= largest_matrix)
    ++large_;
}

void PackedTails::place(std::vector<Load>& loads, std::size_t begin, std::size_t end) {
  std::vector<double> keys;
  keys.reserve(loads.size());
  for (const Load load : loads)
    keys.push_back(static_cast<double>(load.bytes));
  RankOrder order(std::move(keys));
  for (std::size_t i = begin; i < end; ++i) {
    const int rank = order.lightest();
    Load& load = loads[static_cast<std::size_t>(rank)];
    ranks_[order_[i]] = rank;
    load += workload_.tails[order_[i]].load;
    order.set(rank, static_cast<double>(load.bytes));
  }
}

void PackedTails::append_to(std::vector<UnitAssignment>& units) const {
  for (std::size_t tail = 0; tail < ranks_.size(); ++tail) {
    const Item& item = workload_.tails[tail];
    units[item.unit].tails.push_back({item.parameter, {0, item.elements}, ranks_[tail]});
  }
  for (UnitAssignment& unit : units) {
    std::stable_sort(unit.tails.begin(), unit.tails.end(),
                     [](const TailPart& a, const TailPart& b) { return a.rank < b.rank; });
  }
}

}  // namespace matrixfsdp::detail
