#include <algorithm>
#include <optional>
#include <vector>

#include "plan/policies.hpp"
#include "plan/rank_order.hpp"

namespace matrixfsdp::detail {
namespace {

/// Exchanges that are looked at, in all: bounds the time on huge models (some tenths of a second).
constexpr std::int64_t budget = 20'000'000;
/// Exchanges per step after which an improvement that has been found is taken.
constexpr std::int64_t step_budget = 20'000;
/// Pairs are tried on ranks that hold at most this many matrices; with more, single ones are fine-grained enough.
constexpr std::size_t most_for_pairs = 24;
/// Of a rank that holds more, every n-th matrix is tried, so that about this many are.
constexpr std::size_t most_singles = 256;
/// Relative improvement below which two keys count as equal.
constexpr double tolerance = 1e-9;
/// A heaviest rank this close to the lower bound ends the search.
constexpr double close_enough = 1.0 + 1e-4;

/// One or two matrices of a rank, or none.
struct Group {
  std::vector<std::size_t> matrices;
  Load load;
};

class Search {
 public:
  Search(const Workload& work, const UnitLimits& limits, Assignment& assignment)
      : work_(work),
        limits_(limits),
        assignment_(assignment),
        held_(assignment.loads.size()),
        order_(std::vector<double>(assignment.loads.size(), 0.0)) {
    for (std::size_t matrix = 0; matrix < assignment.owners.size(); ++matrix)
      held_[static_cast<std::size_t>(assignment.owners[matrix])].push_back(matrix);
    for (std::size_t rank = 0; rank < held_.size(); ++rank)
      order_.set(static_cast<int>(rank), work.key(assignment.loads[rank], rank));
  }

  void run() {
    while (looked_at_ < budget && order_.key(order_.heaviest()) > close_enough && improve_heaviest()) {
    }
  }

 private:
  struct Exchange {
    int partner = 0;
    Group leaving;
    Group entering;
    double key = 0;  ///< of the heavier of the two ranks afterwards
  };

  bool improve_heaviest() {
    const int heaviest = order_.heaviest();
    const std::vector<Group> leaving = groups(heaviest, false);
    std::optional<Exchange> best;
    const std::int64_t start = looked_at_;
    for (const auto& [key, partner] : order_.order()) {
      if (partner == heaviest || looked_at_ >= budget) break;
      const std::vector<Group> entering = groups(partner, true);
      for (const Group& out : leaving) {
        for (const Group& in : entering)
          look_at(heaviest, partner, out, in, best);
      }
      look_at_units(heaviest, partner, best);
      if (best && looked_at_ - start > step_budget) break;
    }
    if (best) apply(heaviest, *best);
    return best.has_value();
  }

  [[nodiscard]] double key_of(int rank, Load load) const { return work_.key(load, static_cast<std::size_t>(rank)); }

  [[nodiscard]] std::vector<Group> groups(int rank, bool with_none) const {
    const std::vector<std::size_t>& held = held_[static_cast<std::size_t>(rank)];
    std::vector<Group> result;
    if (with_none) result.emplace_back();
    const std::size_t stride = (held.size() + most_singles - 1) / most_singles;
    for (std::size_t i = 0; i < held.size(); i += stride)
      result.push_back({{held[i]}, work_.matrices[held[i]].load});
    if (held.size() > most_for_pairs) return result;
    for (std::size_t i = 0; i < held.size(); ++i) {
      for (std::size_t j = i + 1; j < held.size(); ++j)
        result.push_back({{held[i], held[j]}, work_.matrices[held[i]].load + work_.matrices[held[j]].load});
    }
    return result;
  }

  void look_at(int rank, int partner, const Group& out, const Group& in, std::optional<Exchange>& best) {
    ++looked_at_;
    const Load change = out.load - in.load;
    const double key = std::max(key_of(rank, assignment_.loads[static_cast<std::size_t>(rank)] - change),
                                key_of(partner, assignment_.loads[static_cast<std::size_t>(partner)] + change));
    const double bar = best ? best->key : order_.key(rank);
    if (key >= bar * (1.0 - tolerance)) return;
    if (!admissible(rank, out, in) || !admissible(partner, in, out)) return;
    best = Exchange{partner, out, in, key};
  }

  /// Everything that the two ranks hold of one unit changes places: gamma stays as it is.
  void look_at_units(int rank, int partner, std::optional<Exchange>& best) {
    const std::vector<std::size_t>& held = held_[static_cast<std::size_t>(rank)];
    if (held.size() > most_singles) return;
    std::size_t last = static_cast<std::size_t>(-1);
    for (const std::size_t matrix : held) {
      const std::size_t unit = work_.matrices[matrix].unit;
      if (work_.spreads(unit) || unit == last) continue;
      last = unit;
      look_at(rank, partner, all_of_unit(rank, unit), all_of_unit(partner, unit), best);
    }
  }

  [[nodiscard]] Group all_of_unit(int rank, std::size_t unit) const {
    Group group;
    for (const std::size_t matrix : held_[static_cast<std::size_t>(rank)]) {
      if (work_.matrices[matrix].unit != unit) continue;
      group.matrices.push_back(matrix);
      group.load += work_.matrices[matrix].load;
    }
    return group;
  }

  static bool contains(const Group& group, std::size_t matrix) {
    return std::find(group.matrices.begin(), group.matrices.end(), matrix) != group.matrices.end();
  }

  /// True when `rank`, without `leaving` and with `entering`, keeps the limits of the units that enter.
  [[nodiscard]] bool admissible(int rank, const Group& leaving, const Group& entering) const {
    for (const std::size_t matrix : entering.matrices) {
      const std::size_t unit = work_.matrices[matrix].unit;
      std::int64_t count = 0;
      std::int64_t elements = 0;
      const auto add = [&](std::size_t other) {
        if (work_.matrices[other].unit != unit) return;
        ++count;
        elements += work_.matrices[other].elements;
      };
      for (const std::size_t other : held_[static_cast<std::size_t>(rank)]) {
        if (!contains(leaving, other)) add(other);
      }
      for (const std::size_t other : entering.matrices)
        add(other);
      if (work_.spreads(unit) ? count > 1 : elements > limits_[unit]) return false;
    }
    return true;
  }

  void apply(int rank, const Exchange& exchange) {
    move(exchange.leaving, rank, exchange.partner);
    move(exchange.entering, exchange.partner, rank);
  }

  void move(const Group& group, int from, int to) {
    std::vector<std::size_t>& source = held_[static_cast<std::size_t>(from)];
    std::vector<std::size_t>& target = held_[static_cast<std::size_t>(to)];
    for (const std::size_t matrix : group.matrices) {
      source.erase(std::find(source.begin(), source.end(), matrix));
      target.insert(std::lower_bound(target.begin(), target.end(), matrix), matrix);
      assignment_.owners[matrix] = to;
    }
    assignment_.loads[static_cast<std::size_t>(from)] -= group.load;
    assignment_.loads[static_cast<std::size_t>(to)] += group.load;
    for (const int rank : {from, to})
      order_.set(rank, key_of(rank, assignment_.loads[static_cast<std::size_t>(rank)]));
  }

  const Workload& work_;
  const UnitLimits& limits_;
  Assignment& assignment_;
  std::vector<std::vector<std::size_t>> held_;  ///< matrices of each rank, in canonical order
  RankOrder order_;
  std::int64_t looked_at_ = 0;
};

}  // namespace

void refine(const Workload& workload, const UnitLimits& limits, Assignment& assignment) {
  if (assignment.loads.size() > 1) Search(workload, limits, assignment).run();
}

}  // namespace matrixfsdp::detail
