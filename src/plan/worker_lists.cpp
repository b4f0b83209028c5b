#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/worker_lists.hpp>

namespace matrixfsdp {

WorkerLists::WorkerLists(std::vector<std::int64_t> costs, int workers) : costs_(std::move(costs)) {
  if (workers < 1) throw ContractError(fmt::format("lists of {} workers: expected at least 1", workers));
  order_.resize(costs_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [this](std::size_t left, std::size_t right) { return costs_[left] > costs_[right]; });
  lists_.resize(static_cast<std::size_t>(workers));
  loads_.resize(lists_.size());
  for (std::vector<std::size_t>& list : lists_)
    list.reserve(order_.size());
}

std::span<const std::size_t> WorkerLists::most_of(int worker) const {
  const std::size_t larger = std::min(static_cast<std::size_t>(worker), order_.size());
  return std::span(order_).subspan(larger);
}

void WorkerLists::clear() {
  for (std::vector<std::size_t>& list : lists_)
    list.clear();
  std::fill(loads_.begin(), loads_.end(), 0);
}

void WorkerLists::add(std::size_t piece) {
  const auto least = std::min_element(loads_.begin(), loads_.end());
  lists_[static_cast<std::size_t>(least - loads_.begin())].push_back(piece);
  // Work without a cost counts too: the next worker gets the next piece, as most_of says.
  *least += std::max<std::int64_t>(1, costs_[piece]);
}

}  // namespace matrixfsdp
