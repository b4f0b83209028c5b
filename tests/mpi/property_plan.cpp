#include <algorithm>
#include <array>

#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/property_check.hpp"

// Properties of plans of any model for any number of ranks, checked without the library's own validation.
namespace matrixfsdp {
namespace {

using testing::check_property;
using testing::PropertyCase;

constexpr std::array world_sizes{1, 2, 3, 4, 5, 7, 8, 16, 33, 64};

/// Whether `intervals` and `segments` give every element of the buffer to one rank, and no one anything else.
std::string misplaced(const MatrixShard& shard, int ranks) {
  if (static_cast<int>(shard.owned.size()) != ranks || static_cast<int>(shard.tails.size()) != ranks)
    return "not an interval per rank";
  std::vector<int> owner(static_cast<std::size_t>(shard.size), -1);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Interval& interval :
         {shard.owned[static_cast<std::size_t>(rank)], shard.tails[static_cast<std::size_t>(rank)]}) {
      if (interval.size() < 0) return fmt::format("an interval of rank {} ends before it begins", rank);
      if (interval.empty()) continue;
      if (interval.begin < 0 || interval.end > shard.size) return fmt::format("rank {} is out of bounds", rank);
      for (std::int64_t i = interval.begin; i < interval.end; ++i) {
        int& holder = owner[static_cast<std::size_t>(i)];
        if (holder != -1) return fmt::format("element {} is on ranks {} and {}", i, holder, rank);
        holder = rank;
      }
    }
  }
  std::int64_t covered = 0;
  for (const Segment& segment : shard.segments) {
    if (segment.offset != covered) return fmt::format("a segment begins at {}, expected {}", segment.offset, covered);
    for (std::int64_t i = 0; i < segment.elements.size(); ++i) {
      const int holder = owner.at(static_cast<std::size_t>(covered + i));
      if (holder != segment.rank)
        return fmt::format("element {} is in a segment of {} and on {}", covered + i, segment.rank, holder);
    }
    covered += segment.elements.size();
  }
  return covered == shard.size ? "" : fmt::format("segments cover {} of {} elements", covered, shard.size);
}

/// Whether the segments of each parameter are its elements once, from first to last, and matrices are whole.
std::string incomplete(const UnitSpec& unit, const MatrixShard& shard, bool gradients) {
  std::vector<std::int64_t> next(unit.parameters.size(), 0);
  for (const Segment& segment : shard.segments) {
    std::int64_t& begin = next.at(segment.parameter);
    const ParameterSpec& spec = unit.parameters[segment.parameter];
    if (segment.elements.begin != begin) return fmt::format("{} continues at {}", spec.name, segment.elements.begin);
    const bool whole = segment.elements.size() == element_count(spec.shape);
    if (kind_of(spec) == ParameterKind::matrix && !whole) return spec.name + " is a matrix and cut";
    if (begin % norm_block != 0) return fmt::format("{} is cut at {}", spec.name, begin);
    begin = segment.elements.end;
  }
  for (std::size_t p = 0; p < next.size(); ++p) {
    const ParameterSpec& spec = unit.parameters[p];
    const std::int64_t count = gradients && spec.frozen ? 0 : element_count(spec.shape);
    if (next[p] != count) return fmt::format("{} has {} of {} elements", spec.name, next[p], count);
  }
  return {};
}

TEST(PropertyOfPlans, every_element_has_one_owner) {
  check_property("plans", [](const PropertyCase& sample, Communicator&, Communicator&) {
    for (const int ranks : world_sizes) {
      PropertyCase at = sample;
      at.ranks = ranks;
      at.replicated = false;
      const Plan plan = at.plan();
      for (std::size_t u = 0; u < plan.units.size(); ++u) {
        for (const bool gradients : {false, true}) {
          const MatrixShard& shard = gradients ? plan.units[u].gradients : plan.units[u].weights;
          std::string wrong = misplaced(shard, ranks);
          if (wrong.empty()) wrong = incomplete(sample.model.units[u], shard, gradients);
          if (!wrong.empty()) return fmt::format("W = {}, {}: {}", ranks, sample.model.units[u].name, wrong);
        }
      }
    }
    return std::string();
  });
}

/// What a placement is measured by.
struct Figures {
  std::int64_t most = 0;  ///< on one rank
  std::int64_t sum = 0;
  std::int64_t largest = 0;  ///< of one piece that has to be whole

  void add_rank(std::int64_t load) {
    most = std::max(most, load);
    sum += load;
  }
};

// The bound that make_plan states.
std::string too_heavy(const char* what, const Figures& figures, int ranks, std::int64_t rounding) {
  const double bound = std::max(static_cast<double>(figures.sum) / ranks, static_cast<double>(figures.largest));
  const double limit = (2.0 - 1.0 / ranks) * bound + static_cast<double>(rounding);
  if (static_cast<double>(figures.most) <= limit) return {};
  return fmt::format("{} {} on one rank, at most {:.1f} expected", figures.most, what, limit);
}

std::string imbalance(const PropertyCase& sample) {
  OptimizerCost cost;
  cost.matrices = sample.matrices;
  Figures bytes;
  Figures flops;
  std::int64_t units_with_tails = 0;
  for (const UnitSpec& unit : sample.model.units) {
    bool tails = false;
    for (const ParameterSpec& spec : unit.parameters) {
      const bool matrix = kind_of(spec) == ParameterKind::matrix;
      tails = tails || !matrix;
      if (!matrix && sample.tails == TailPlacement::spread) continue;
      bytes.largest = std::max(bytes.largest, resident_bytes(spec, element_count(spec.shape), cost));
      flops.largest = std::max(flops.largest, step_flops(spec, cost));
    }
    units_with_tails += tails ? 1 : 0;
  }
  MemoryOptions memory;
  memory.optimizer = cost;
  for (const RankLoad& rank : report(sample.model, sample.plan(), memory).ranks) {
    bytes.add_rank(rank.owned_bytes);
    flops.add_rank(rank.flops);
  }
  std::string wrong = too_heavy("bytes", bytes, sample.ranks, 16 * norm_block * units_with_tails);
  if (wrong.empty() && sample.policy == Policy::balanced)  // the others balance bytes only
    wrong = too_heavy("FLOPs", flops, sample.ranks, 12 * norm_block * units_with_tails);
  return wrong;
}

TEST(PropertyOfPlans, balance_is_never_worse_than_the_factor_of_its_bound) {
  check_property("balance", [](const PropertyCase& sample, Communicator&, Communicator&) {
    for (const int ranks : world_sizes) {
      for (const TailPlacement tails : {TailPlacement::automatic, TailPlacement::packed, TailPlacement::spread}) {
        PropertyCase at = sample;
        at.ranks = ranks;
        at.tails = tails;
        at.replicated = false;
        const std::string wrong = imbalance(at);
        if (!wrong.empty()) return fmt::format("W = {}, tails {}: {}", ranks, static_cast<int>(tails), wrong);
      }
    }
    return std::string();
  });
}

}  // namespace
}  // namespace matrixfsdp
