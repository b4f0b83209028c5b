#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/plan/planner.hpp>

#include "support/agree.hpp"
#include "support/gradient_kinds.hpp"
#include "support/parts_of_world.hpp"
#include "support/shapes_model.hpp"

// The kind, not the case: every shape, gradient and policy at every number of ranks.
namespace matrixfsdp {
namespace {

using testing::all_gradient_kinds;
using testing::GradientKind;
using testing::gradients_of;
using testing::shapes_model;
using testing::sum_over_ranks;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::SyntheticStep;
using testing::WholeTensors;
using testing::world;

SyntheticOptions options_for(std::int64_t micro_batches, double max_norm) {
  SyntheticOptions options;
  options.micro_batches = micro_batches;
  options.max_norm = max_norm;
  options.optimizer.muon.weight_decay = 0.125;
  options.optimizer.adamw.weight_decay = 0.25;
  return options;
}

/// Everything after each step of the run with W = 1.
struct Reference {
  std::vector<SyntheticStep> steps;
  std::vector<WholeTensors> tensors;
};

Reference reference(Communicator& alone, const ModelSpec& spec, const SyntheticOptions& options) {
  SyntheticRun run(alone, spec, make_plan(spec, 1), options);
  Reference result;
  std::uint64_t seed = 1;
  for (const GradientKind kind : all_gradient_kinds) {
    result.steps.push_back(run.step(gradients_of(kind, seed++, options.micro_batches)));
    result.tensors.push_back(run.tensors());
  }
  return result;
}

void expect_equal_to(const Reference& expected, const ModelSpec& spec, const Plan& plan,
                     const SyntheticOptions& options) {
  Communicator own = testing::duplicate_world();
  SyntheticRun run(own, spec, plan, options);
  std::uint64_t seed = 1;
  for (std::size_t s = 0; s < all_gradient_kinds.size(); ++s) {
    SCOPED_TRACE(fmt::format("step {}: {} gradients, planner {}, {} micro-batches, clipping at {}", s + 1,
                             name_of(all_gradient_kinds[s]), plan.planner, options.micro_batches, options.max_norm));
    const SyntheticStep step = run.step(gradients_of(all_gradient_kinds[s], seed++, options.micro_batches));
    EXPECT_EQ(step.finite, expected.steps[s].finite);
    if (step.finite) {
      EXPECT_EQ(step.norm, expected.steps[s].norm);
    }
    ASSERT_EQ(testing::first_of_all_ranks(run.difference_from(expected.tensors[s])), "");
    const std::int64_t matrices = sum_over_ranks(step.taken.matrices_orthogonalized);
    const std::int64_t copies = plan.replicated ? plan.world_size : 1;
    EXPECT_EQ(matrices, copies * expected.steps[s].taken.matrices_orthogonalized);
  }
  EXPECT_EQ(own.bytes()[Purpose::optimizer], 0);
}

/// Passes per step of every rank.
class ShapesEqualBits : public ::testing::TestWithParam<std::tuple<std::int64_t, double>> {};

// CASES 1, 2, 4, 5, 7, 8, 9, 10, 14, 15, 16, 20, 26, 27, 30, 34, 36: weights, momenta and moments of all 40 shapes are
// the bits of one rank, under every policy and replicated.
TEST_P(ShapesEqualBits, every_policy_gives_the_bits_of_one_rank) {
  const auto [passes, max_norm] = GetParam();
  const ModelSpec spec = shapes_model();
  const SyntheticOptions options = options_for(passes * world().size(), max_norm);
  Communicator alone = testing::alone();
  const Reference expected = reference(alone, spec, options);
  for (const Policy policy : {Policy::role, Policy::scope, Policy::cost, Policy::balanced}) {
    PlannerOptions planner;
    planner.policy = policy;
    planner.tails = policy == Policy::role ? TailPlacement::packed : TailPlacement::spread;
    expect_equal_to(expected, spec, make_plan(spec, world().size(), planner), options);
  }
  expect_equal_to(expected, spec, make_replicated_plan(spec, world().size()), options);
}

INSTANTIATE_TEST_SUITE_P(PassesAndClipping, ShapesEqualBits,
                         ::testing::Combine(::testing::Values(1, 3), ::testing::Values(0.0, 0.75)));

// The same where weights and gradients travel as bfloat16, but for one unit's: every rank computes with the weights
// that one rank rounds for itself.
TEST(ShapesEqualBitsOfBfloat16, every_policy_gives_the_bits_of_one_rank) {
  const ModelSpec spec = shapes_model();
  SyntheticOptions options = options_for(2 * world().size(), 0.75);
  Communicator alone = testing::alone();
  const Reference exact = reference(alone, spec, options);
  options.sharding.policies.all = {DType::bfloat16, DType::bfloat16};
  options.sharding.policies.by_unit["small"] = {};
  const Reference expected = reference(alone, spec, options);
  EXPECT_NE(expected.tensors[2].at("m.18x3"), exact.tensors[2].at("m.18x3"));
  for (const int prefetch : {0, 2}) {
    options.sharding.prefetch = prefetch;
    expect_equal_to(expected, spec, make_plan(spec, world().size()), options);
    expect_equal_to(expected, spec, make_replicated_plan(spec, world().size()), options);
  }
}

/// Weight of a parameter of a W = 1 run before any step.
WholeTensors before(Communicator& alone, const ModelSpec& spec) {
  return SyntheticRun(alone, spec, make_plan(spec, 1), options_for(1, 0)).tensors();
}

// CASES 18: zero gradients move nothing but by weight decay. CASES 30: a step that is not finite moves nothing.
TEST(ShapesReference, degenerate_steps_have_their_stated_answer) {
  const ModelSpec spec = shapes_model();
  const SyntheticOptions options = options_for(2, 0);
  Communicator alone = testing::alone();
  const WholeTensors initial = before(alone, spec);
  const Reference run = reference(alone, spec, options);
  const float kept = static_cast<float>(1.0 - options.optimizer.muon.learning_rate * 0.125);
  for (const ParameterSpec& parameter : testing::all_parameters(spec)) {
    const bool muon = kind_of(parameter) == ParameterKind::matrix && !parameter.frozen;
    if (element_count(parameter.shape) == 0) continue;
    const std::vector<float>& first = run.tensors[0].at(parameter.name);
    for (std::size_t i = 0; muon && i < first.size(); ++i)
      ASSERT_EQ(first[i], initial.at(parameter.name)[i] * kept) << parameter.name;
    for (const WholeTensors& tensors : run.tensors) {
      for (const float value : tensors.at(parameter.name))
        ASSERT_TRUE(std::isfinite(value)) << parameter.name;
    }
    EXPECT_EQ(run.tensors.back().at(parameter.name) == initial.at(parameter.name), parameter.frozen) << parameter.name;
  }
  for (std::size_t s = 0; s < all_gradient_kinds.size(); ++s) {
    const bool skipped = all_gradient_kinds[s] == GradientKind::non_finite;
    EXPECT_EQ(run.steps[s].finite, !skipped) << s;
    EXPECT_EQ(run.steps[s].taken.matrices_orthogonalized, skipped ? 0 : matrix_count(spec)) << s;
    if (skipped) {
      EXPECT_EQ(run.tensors[s], run.tensors[s - 1]);
    }
  }
}

// CASES 34: a matrix that no micro-batch uses keeps its momentum's direction, and the momentum decays.
TEST(ShapesReference, an_unused_matrix_decays_its_momentum) {
  const ModelSpec spec = shapes_model();
  Communicator alone = testing::alone();
  const Reference run = reference(alone, spec, options_for(2, 0));
  std::size_t missing = 0;
  while (all_gradient_kinds[missing] != GradientKind::missing)
    ++missing;
  int unused = 0;
  for (const ParameterSpec& parameter : testing::all_parameters(spec)) {
    const std::string state = parameter.name + "/momentum";
    if (!testing::is_never_used(parameter) || !run.tensors[missing].contains(state)) continue;
    ++unused;
    for (std::size_t i = 0; i < run.tensors[missing].at(state).size(); ++i)
      ASSERT_EQ(run.tensors[missing].at(state)[i], 0.95F * run.tensors[missing - 1].at(state)[i]) << state;
  }
  EXPECT_GE(unused, 5);
}

}  // namespace
}  // namespace matrixfsdp
