#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "support/agree.hpp"
#include "support/gradient_kinds.hpp"
#include "support/parts_of_world.hpp"
#include "support/reduction_bytes.hpp"
#include "support/shapes_model.hpp"

// Nobody pads: bytes and FLOPs are those of the real elements.
namespace matrixfsdp {
namespace {

using testing::GradientKind;
using testing::gradients_of;
using testing::matrix;
using testing::shapes_model;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::SyntheticStep;
using testing::world;

constexpr std::int64_t passes = 2;

SyntheticOptions counted_options() {
  SyntheticOptions options;
  options.micro_batches = passes * world().size();
  options.sharding.prefetch = 7;  // a slot for every unit: each is fetched once per step
  return options;
}

/// FLOPs of the parameters and segments that `rank` holds, and of nothing else.
std::int64_t flops_of_rank(const ModelSpec& spec, const Plan& plan, int rank) {
  std::int64_t flops = 0;
  for (std::size_t u = 0; u < spec.units.size(); ++u) {
    for (const Segment& segment : plan.units[u].gradients.segments) {
      if (segment.rank != rank) continue;
      const ParameterSpec& parameter = spec.units[u].parameters[segment.parameter];
      const std::int64_t count = element_count(parameter.shape);
      const std::int64_t whole = step_flops(parameter, cost_of({}));
      flops += count == segment.elements.size() ? whole : whole / count * segment.elements.size();
    }
  }
  return flops;
}

std::int64_t weight_elements(const Plan& plan) {
  return std::accumulate(plan.units.begin(), plan.units.end(), std::int64_t{0},
                         [](std::int64_t sum, const UnitPlan& unit) { return sum + unit.weights.size; });
}

ByteCounts bytes_of_all(Communicator& communicator) {
  ByteCounts sum;
  for (const ByteCounts& one : all_gather_value(world(), Purpose::other, communicator.bytes(), {"bytes", "", ""})) {
    for (std::size_t p = 0; p < purpose_count; ++p)
      sum.sent[p] += one.sent[p];
  }
  return sum;
}

// CASES 3: proportional to real elements. CASES 2: a rank computes only what it owns.
TEST(ShapesCounts, bytes_and_flops_are_those_of_the_elements) {
  const ModelSpec spec = shapes_model();
  const int ranks = world().size();
  for (const Policy policy : {Policy::role, Policy::scope, Policy::cost, Policy::balanced}) {
    PlannerOptions planner;
    planner.policy = policy;
    const Plan plan = make_plan(spec, ranks, planner);
    Communicator own = testing::duplicate_world();
    SyntheticRun run(own, spec, plan, counted_options());
    const SyntheticStep step = run.step(gradients_of(GradientKind::ordinary, 1, passes * ranks));
    EXPECT_EQ(step.taken.flops, flops_of_rank(spec, plan, world().rank())) << name_of(policy);
    const ByteCounts bytes = bytes_of_all(own);
    EXPECT_EQ(weight_elements(plan), element_count(spec));
    EXPECT_EQ(bytes[Purpose::unshard], 4 * (ranks - 1) * element_count(spec)) << name_of(policy);
    const testing::ReductionBytes reduction = testing::reduction_bytes(plan, passes);
    EXPECT_EQ(bytes[Purpose::reduce], passes * reduction.exchange + reduction.to_owners) << name_of(policy);
    EXPECT_EQ(bytes[Purpose::optimizer], 0);
    EXPECT_EQ(plan.units[2].gradients.size, plan.units[2].weights.size - 24) << "the frozen matrix has no gradient";
  }
}

TEST(ShapesCounts, replicated_ranks_do_everything_and_fetch_nothing) {
  const ModelSpec spec = shapes_model();
  const int ranks = world().size();
  const Plan plan = make_replicated_plan(spec, ranks);
  Communicator own = testing::duplicate_world();
  SyntheticRun run(own, spec, plan, counted_options());
  const SyntheticStep step = run.step(gradients_of(GradientKind::ordinary, 1, passes * ranks));
  std::int64_t flops = 0;
  for (const ParameterSpec& parameter : testing::all_parameters(spec))
    flops += step_flops(parameter, cost_of({}));
  EXPECT_EQ(step.taken.flops, flops);
  const ByteCounts bytes = bytes_of_all(own);
  EXPECT_EQ(bytes[Purpose::unshard], 0);
  std::int64_t gradients = 0;
  for (const UnitPlan& unit : plan.units)
    gradients += unit.gradients.size;
  EXPECT_EQ(bytes[Purpose::reduce], (passes + 1) * 4 * (ranks - 1) * gradients);
  EXPECT_EQ(bytes[Purpose::optimizer], 0);
}

/// One unit of the given matrices, alone.
ModelSpec only(const std::vector<Shape>& shapes) {
  ModelSpec model;
  model.units.push_back({"only", {}, false});
  for (const Shape& shape : shapes)
    model.units[0].parameters.push_back(matrix(fmt::format("w{}", model.units[0].parameters.size()), shape));
  return model;
}

// CASES 1: (18, D), (1, D), (3, D); CASES 2: one matrix; CASES 5, 6: three matrices; CASES 45: more than four, and more
// than 64, in one unit. Ranks without any take part in every phase: the bits are those of one rank.
TEST(ShapesSpareRanks, a_rank_that_owns_nothing_takes_part_and_computes_nothing) {
  Communicator alone = testing::alone();
  std::vector<ModelSpec> models{only({{18, 5}}), only({{1, 5}}), only({{3, 5}}), only({{4, 6}, {6, 4}, {5, 5}})};
  for (const std::size_t count : {4U, 5U, 64U, 65U})
    models.push_back(only(std::vector<Shape>(count, Shape{3, 4})));
  for (const ModelSpec& spec : models) {
    const std::size_t matrices = spec.units[0].parameters.size();
    SyntheticOptions options;
    options.micro_batches = world().size();
    options.max_norm = 1.0;
    SyntheticRun expected(alone, spec, make_plan(spec, 1), options);
    const Plan plan = make_plan(spec, world().size());
    SyntheticRun run(world(), spec, plan, options);
    std::vector<std::int64_t> flops;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const testing::GradientRule rule = gradients_of(GradientKind::ordinary, seed, options.micro_batches);
      expected.step(rule);
      const std::int64_t mine = run.step(rule).taken.flops;
      flops = all_gather_value(world(), Purpose::other, mine, {"flops", "", ""});
      ASSERT_EQ(testing::first_of_all_ranks(run.difference_from(expected.tensors())), "") << matrices << " matrices";
    }
    const auto busy = std::count_if(flops.begin(), flops.end(), [](std::int64_t f) { return f > 0; });
    EXPECT_EQ(static_cast<std::size_t>(busy), std::min(matrices, flops.size())) << matrices << " matrices";
    EXPECT_EQ(run.optimizer().state_bytes(), 4 * plan.units[0].weights.shard_size(world().rank()));
  }
}

}  // namespace
}  // namespace matrixfsdp
