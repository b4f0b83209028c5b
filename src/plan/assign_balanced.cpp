#include <algorithm>
#include <map>
#include <numeric>

#include "plan/policies.hpp"
#include "plan/rank_order.hpp"

// Two things are balanced at once, bytes and FLOPs: a rank's key is the larger of both, each over its lower bound.
// Matrices go largest key first to a light rank, then local search lowers the heaviest ranks. Units with more matrices
// than ranks must put several on one rank; how many elements they may put there is a limit, loosened step by step from
// the best that the unit reaches alone. What is bought in balance is paid in gamma, at gamma_price.
namespace matrixfsdp::detail {
namespace {

/// One percent of fan-out (which an algorithm such as the chain can hide) against a tenth of a percent of balance.
constexpr double gamma_price = 0.1;

/// Light ranks that are tried for one matrix: more find partners of opposite kind, and cost time.
constexpr int candidates = 16;

/// Keys this close to the lower bound are not worth another attempt.
constexpr double good_enough = 1.002;

enum class SortBy { key, bytes, flops };

std::vector<std::size_t> largest_first(const Workload& work, SortBy by) {
  const auto measure = [&work, by](const Item& item) {
    if (by == SortBy::bytes) return static_cast<double>(item.load.bytes);
    if (by == SortBy::flops) return static_cast<double>(item.load.flops);
    return work.key(item.load);
  };
  std::vector<std::size_t> indices(work.matrices.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::stable_sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) {
    const Item& left = work.matrices[a];
    const Item& right = work.matrices[b];
    const double left_measure = measure(left);
    const double right_measure = measure(right);
    if (left_measure != right_measure) return left_measure > right_measure;
    // Equal matrices of a unit side by side, which the construction places together.
    if (left.load.bytes != right.load.bytes) return left.load.bytes > right.load.bytes;
    return left.load.flops > right.load.flops;
  });
  return indices;
}

/// Places matrices in the given order.
class Construction {
 public:
  Construction(const Workload& work, const UnitLimits& limits, const std::vector<Load>& base)
      : work_(work),
        limits_(limits),
        result_{std::vector<int>(work.matrices.size(), 0), base},
        order_(keys(work, base)),
        held_(base.size(), 0),
        placed_(work.matrices_of_unit.size()) {}

  Assignment run(const std::vector<std::size_t>& sequence) {
    for (std::size_t i = 0; i < sequence.size();) {
      const std::size_t unit = work_.matrices[sequence[i]].unit;
      std::size_t end = i;
      while (end < sequence.size() && work_.matrices[sequence[end]].unit == unit)
        ++end;
      // `held_` describes one unit at a time.
      for (const std::size_t matrix : placed_[unit])
        held_[rank_of(matrix)] += work_.matrices[matrix].elements;
      for (; i < end; ++i)
        place(sequence[i]);
      for (const std::size_t matrix : placed_[unit])
        held_[rank_of(matrix)] = 0;
    }
    return std::move(result_);
  }

 private:
  static std::vector<double> keys(const Workload& work, const std::vector<Load>& loads) {
    std::vector<double> result;
    result.reserve(loads.size());
    for (std::size_t rank = 0; rank < loads.size(); ++rank)
      result.push_back(work.key(loads[rank], rank));
    return result;
  }

  [[nodiscard]] std::size_t rank_of(std::size_t matrix) const {
    return static_cast<std::size_t>(result_.owners[matrix]);
  }

  [[nodiscard]] bool eligible(const Item& item, int rank) const {
    const std::int64_t held = held_[static_cast<std::size_t>(rank)];
    return work_.spreads(item.unit) ? held == 0 : held + item.elements <= limits_[item.unit];
  }

  /// The eligible rank, among the lightest ones, that is lightest with the item; where none is, the one that holds
  /// least of the unit.
  [[nodiscard]] int choose(const Item& item) const {
    int best = -1;
    double best_key = 0;
    int tried = 0;
    for (const auto& [key, rank] : order_.order()) {
      if (!eligible(item, rank)) continue;
      const auto at = static_cast<std::size_t>(rank);
      const double with = work_.key(result_.loads[at] + item.load, at);
      if (best < 0 || with < best_key) {
        best = rank;
        best_key = with;
      }
      if (++tried == candidates) break;
    }
    if (best >= 0) return best;
    return static_cast<int>(std::min_element(held_.begin(), held_.end()) - held_.begin());
  }

  void place(std::size_t matrix) {
    const Item& item = work_.matrices[matrix];
    const int rank = choose(item);
    result_.owners[matrix] = rank;
    Load& load = result_.loads[static_cast<std::size_t>(rank)];
    load += item.load;
    order_.set(rank, work_.key(load, static_cast<std::size_t>(rank)));
    held_[static_cast<std::size_t>(rank)] += item.elements;
    placed_[item.unit].push_back(matrix);
  }

  const Workload& work_;
  const UnitLimits& limits_;
  Assignment result_;
  RankOrder order_;
  std::vector<std::int64_t> held_;                ///< elements of the current unit, per rank
  std::vector<std::vector<std::size_t>> placed_;  ///< matrices of each unit that have a rank
};

/// The most elements of its matrices that a unit puts on one rank when it balances them alone (LPT).
UnitLimits tightest_limits(const Workload& work) {
  UnitLimits limits(work.matrices_of_unit.size(), 0);
  std::size_t begin = 0;
  for (std::size_t u = 0; u < limits.size(); ++u) {
    const std::size_t end = begin + static_cast<std::size_t>(work.matrices_of_unit[u]);
    std::vector<std::int64_t> sizes;
    for (; begin < end; ++begin)
      sizes.push_back(work.matrices[begin].elements);
    std::sort(sizes.rbegin(), sizes.rend());
    if (sizes.empty()) continue;
    if (work.spreads(u)) {
      limits[u] = sizes.front();
      continue;
    }
    RankOrder order(std::vector<double>(static_cast<std::size_t>(work.world_size), 0.0));
    for (const std::int64_t size : sizes)
      order.set(order.lightest(), order.key(order.lightest()) + static_cast<double>(size));
    limits[u] = static_cast<std::int64_t>(order.key(order.heaviest()));
  }
  return limits;
}

UnitLimits loosened(const UnitLimits& limits, double factor) {
  UnitLimits result;
  for (const std::int64_t limit : limits)
    result.push_back(static_cast<std::int64_t>(static_cast<double>(limit) * factor));
  return result;
}

/// Sum over units of the most elements on one rank: what a direct fan-out sends, up to a constant.
double fan_out(const Workload& work, const Assignment& assignment) {
  double sum = 0;
  for (std::size_t begin = 0; begin < work.matrices.size();) {
    const std::size_t unit = work.matrices[begin].unit;
    std::map<int, std::int64_t> held;
    std::int64_t most = 0;
    for (; begin < work.matrices.size() && work.matrices[begin].unit == unit; ++begin) {
      most = std::max(most, held[assignment.owners[begin]] += work.matrices[begin].elements);
    }
    sum += static_cast<double>(most);
  }
  return sum;
}

}  // namespace

Assignment assign_balanced(const Workload& work, const std::vector<Load>& base) {
  const UnitLimits tightest = tightest_limits(work);
  const double least_fan_out =
      std::accumulate(tightest.begin(), tightest.end(), 0.0,
                      [](double sum, std::int64_t limit) { return sum + static_cast<double>(limit); });
  bool all_spread = true;
  for (std::size_t u = 0; u < tightest.size(); ++u)
    all_spread = all_spread && work.spreads(u);

  Assignment best;
  double best_price = 0;
  for (const double factor : {1.0, 1.1, 1.3, 2.0}) {
    const UnitLimits limits = loosened(tightest, factor);
    for (const SortBy by : {SortBy::key, SortBy::bytes, SortBy::flops}) {
      Assignment attempt = Construction(work, limits, base).run(largest_first(work, by));
      refine(work, limits, attempt);
      double price = std::max(1.0, attempt.worst(work));
      if (least_fan_out > 0) price += gamma_price * (fan_out(work, attempt) / least_fan_out - 1.0);
      if (best.loads.empty() || price < best_price) {
        best = std::move(attempt);
        best_price = price;
      }
      if (best_price <= good_enough) return best;
    }
    // Only units with several matrices on a rank have a limit to loosen.
    if (all_spread) break;
  }
  return best;
}

}  // namespace matrixfsdp::detail
