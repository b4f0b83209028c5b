#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/plan/planner.hpp>

#include "unit/plan_models.hpp"

// Properties of every plan, checked element by element without the library's own validation.
namespace matrixfsdp {
namespace {

constexpr int world_sizes[] = {1, 2, 3, 4, 7, 8, 64};

/// Rank of each element of a buffer, from the intervals; -1 nowhere, -2 twice.
std::vector<int> holders(const MatrixShard& shard) {
  std::vector<int> result(static_cast<std::size_t>(shard.size), -1);
  for (const std::vector<Interval>* intervals : {&shard.owned, &shard.tails}) {
    for (std::size_t rank = 0; rank < intervals->size(); ++rank) {
      for (std::int64_t i = (*intervals)[rank].begin; i < (*intervals)[rank].end; ++i) {
        int& holder = result.at(static_cast<std::size_t>(i));
        holder = holder == -1 ? static_cast<int>(rank) : -2;
      }
    }
  }
  return result;
}

/// Rank of each element of a parameter.
std::vector<int> holders_of(const MatrixShard& shard, const std::vector<int>& buffer, std::size_t p,
                            const ParameterSpec& spec) {
  const std::int64_t count = element_count(spec.shape);
  const auto begin = static_cast<std::size_t>(shard.parameter_offsets.at(p));
  EXPECT_LE(begin + static_cast<std::size_t>(count), buffer.size()) << spec.name;
  std::vector<int> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    result.push_back(buffer.at(begin + i));
  return result;
}

void expect_each_position_once(const UnitSpec& unit, const MatrixShard& shard, bool gradients) {
  std::vector<int> uses(static_cast<std::size_t>(shard.size), 0);
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    if (gradients && unit.parameters[p].frozen) {
      EXPECT_EQ(shard.parameter_offsets.at(p), -1);
      continue;
    }
    for (std::int64_t i = 0; i < element_count(unit.parameters[p].shape); ++i)
      ++uses.at(static_cast<std::size_t>(shard.parameter_offsets.at(p) + i));
  }
  EXPECT_EQ(std::count(uses.begin(), uses.end(), 1), shard.size);
}

/// Segments say what the intervals say, no more and no less.
void expect_segments_agree(const MatrixShard& shard, const std::vector<int>& buffer) {
  std::int64_t covered = 0;
  for (const Segment& segment : shard.segments) {
    ASSERT_EQ(segment.offset, covered) << "by offset, without gaps";
    ASSERT_FALSE(segment.elements.empty());
    ASSERT_EQ(segment.offset, shard.parameter_offsets.at(segment.parameter) + segment.elements.begin);
    for (std::int64_t i = 0; i < segment.elements.size(); ++i)
      ASSERT_EQ(buffer.at(static_cast<std::size_t>(covered + i)), segment.rank);
    covered += segment.elements.size();
  }
  EXPECT_EQ(covered, shard.size);
}

void expect_monotone(const std::vector<Interval>& intervals) {
  for (std::size_t rank = 0; rank < intervals.size(); ++rank) {
    EXPECT_LE(intervals[rank].begin, intervals[rank].end);
    if (rank > 0) {
      EXPECT_EQ(intervals[rank].begin, intervals[rank - 1].end);
    }
  }
}

void check_unit(const UnitSpec& unit, const UnitPlan& plan) {
  const std::vector<int> weights = holders(plan.weights);
  const std::vector<int> gradients = holders(plan.gradients);
  for (const auto& [shard, buffer] : {std::pair(&plan.weights, &weights), std::pair(&plan.gradients, &gradients)}) {
    EXPECT_EQ(std::count_if(buffer->begin(), buffer->end(), [](int rank) { return rank < 0; }), 0);
    expect_each_position_once(unit, *shard, shard == &plan.gradients);
    expect_segments_agree(*shard, *buffer);
    expect_monotone(shard->owned);
    expect_monotone(shard->tails);
  }
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    const ParameterSpec& spec = unit.parameters[p];
    const std::vector<int> ranks = holders_of(plan.weights, weights, p, spec);
    if (!spec.frozen) {
      EXPECT_EQ(holders_of(plan.gradients, gradients, p, spec), ranks) << spec.name;
    }
    const bool matrix = kind_of(spec) == ParameterKind::matrix;
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      if (ranks[i] == ranks[i - 1]) continue;
      EXPECT_FALSE(matrix) << spec.name << " is cut at " << i;
      EXPECT_EQ(i % static_cast<std::size_t>(norm_block), 0U) << spec.name << " is cut at " << i;
    }
  }
}

void check_distinct_owners(const ModelSpec& model, const Plan& plan) {
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    std::multiset<int> owners;
    for (std::size_t p = 0; p < model.units[u].parameters.size(); ++p) {
      if (kind_of(model.units[u].parameters[p]) == ParameterKind::matrix) owners.insert(plan.owner(u, p));
    }
    if (static_cast<int>(owners.size()) > plan.world_size) continue;
    for (const int owner : owners)
      EXPECT_EQ(owners.count(owner), 1U) << model.units[u].name << " has two matrices on rank " << owner;
  }
}

TEST(PlanProperties, random_models_under_all_policies) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const ModelSpec model = test::random_model(seed);
    for (const int ranks : world_sizes) {
      for (const Policy policy : test::all_policies) {
        for (const TailPlacement tails : test::all_tail_placements) {
          SCOPED_TRACE(testing::Message() << "seed " << seed << ", W = " << ranks << ", " << name_of(policy)
                                          << ", tails " << static_cast<int>(tails));
          const Plan plan = test::plan_with(model, ranks, policy, tails);
          ASSERT_EQ(plan.world_size, ranks);
          ASSERT_EQ(plan.planner, name_of(policy));
          ASSERT_EQ(plan.units.size(), model.units.size());
          for (std::size_t u = 0; u < model.units.size(); ++u)
            check_unit(model.units[u], plan.units[u]);
          if (policy == Policy::role || policy == Policy::balanced) check_distinct_owners(model, plan);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(PlanProperties, packed_tails_are_whole) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    const Plan plan = test::plan_with(test::random_model(seed), 4, Policy::balanced, TailPlacement::packed);
    for (const UnitPlan& unit : plan.units) {
      std::set<std::size_t> seen;
      for (const Segment& segment : unit.weights.segments)
        EXPECT_TRUE(seen.insert(segment.parameter).second) << "seed " << seed;
    }
  }
}

TEST(PlanProperties, the_same_plan_every_time_and_another_for_another_input) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const ModelSpec model = test::random_model(seed);
    if (element_count(model) == 0) continue;
    for (const Policy policy : test::all_policies) {
      EXPECT_EQ(hash_of(test::plan_with(model, 3, policy)), hash_of(test::plan_with(model, 3, policy)));
      EXPECT_NE(hash_of(test::plan_with(model, 3, policy)), hash_of(test::plan_with(model, 4, policy)));
    }
    EXPECT_NE(hash_of(make_replicated_plan(model, 3)), hash_of(test::plan_with(model, 3, Policy::balanced)));
  }
}

// By hand: a square weighs 1, a wide matrix 4. On three ranks the wide ones take 0 and 1, and four squares make 4 on
// rank 2; on eight, each matrix of a unit has a rank of its own, the lowest ones first.
TEST(PlanProperties, role_by_hand) {
  const ModelSpec model = test::blocks(1, 64, 4, 2);
  for (const auto& [ranks, expected] :
       std::vector<std::pair<int, std::vector<int>>>{{3, {2, 2, 2, 2, 0, 1}}, {8, {2, 3, 4, 5, 0, 1}}}) {
    const Plan plan = test::plan_with(model, ranks, Policy::role);
    std::vector<int> owners;
    for (std::size_t p = 0; p < 6; ++p)
      owners.push_back(plan.owner(0, p));
    EXPECT_EQ(owners, expected) << ranks;
  }
}

}  // namespace
}  // namespace matrixfsdp
