#pragma once

#include <set>
#include <utility>
#include <vector>

namespace matrixfsdp::detail {

/// Ranks by key, equal keys by rank: lightest first. A change of key costs O(log W).
class RankOrder {
 public:
  using Order = std::set<std::pair<double, int>>;

  explicit RankOrder(std::vector<double> keys) : keys_(std::move(keys)) {
    std::vector<std::pair<double, int>> pairs;
    pairs.reserve(keys_.size());
    for (std::size_t rank = 0; rank < keys_.size(); ++rank)
      pairs.emplace_back(keys_[rank], static_cast<int>(rank));
    order_.insert(pairs.begin(), pairs.end());
  }

  void set(int rank, double key) {
    double& held = keys_[static_cast<std::size_t>(rank)];
    auto node = order_.extract({held, rank});
    held = key;
    node.value().first = key;
    order_.insert(std::move(node));
  }

  [[nodiscard]] double key(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Order& order() const { return order_; }
  [[nodiscard]] int lightest() const { return order_.begin()->second; }
  [[nodiscard]] int heaviest() const { return order_.rbegin()->second; }

 private:
  std::vector<double> keys_;
  Order order_;
};

}  // namespace matrixfsdp::detail
