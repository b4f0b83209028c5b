#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "support/micro_gradients.hpp"
#include "support/mpi_world.hpp"
#include "support/norm_blocks.hpp"
#include "support/reduction_bytes.hpp"
#include "support/small_models.hpp"

namespace matrixfsdp {
namespace {

using testing::expect_folded_gradients;
using testing::folded_gradient;
using testing::micro_gradient;
using testing::parameter;
using testing::small_model;
using testing::world;
using testing::write_gradients;

void run_passes(ShardedModel& model, std::int64_t passes) {
  model.begin_step();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    model.begin_pass();
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      write_gradients(model, u, pass * world().size() + world().rank());
      model.reduce(u);
    }
  }
}

ShardedModelOptions options_for(std::int64_t passes, Accumulation accumulation = Accumulation::chunks) {
  ShardedModelOptions options;
  options.passes = passes;
  options.accumulation = accumulation;
  return options;
}

// CASES 9, 10: the owner gets the full sum over all ranks and passes, in one order whatever the plan. CASES 8: shapes
// come from the plan.
TEST(FsdpReduce, owners_hold_the_left_fold_bit_for_bit) {
  const ModelSpec spec = small_model(3);
  for (const std::int64_t passes : {1, 2, 3}) {
    for (const Policy policy : {Policy::role, Policy::scope, Policy::cost, Policy::balanced}) {
      PlannerOptions planner;
      planner.policy = policy;
      ShardedModel model(world(), spec, make_plan(spec, world().size(), planner), options_for(passes));
      for (int step = 0; step < 2; ++step) {
        run_passes(model, passes);
        expect_folded_gradients(model, passes * world().size());
      }
    }
  }
}

TEST(FsdpReduce, a_replicated_plan_gives_every_rank_the_same_fold) {
  const ModelSpec spec = small_model(2);
  ShardedModel model(world(), spec, make_replicated_plan(spec, world().size()), options_for(2));
  run_passes(model, 2);
  std::int64_t elements = 0;
  for (const ParameterView& view : model.trainable()) {
    for (std::int64_t i = 0; i < view.elements.size(); ++i) {
      ASSERT_EQ(view.gradient(static_cast<std::size_t>(i)), folded_gradient(view.spec->name, i, 2 * world().size()))
          << view.spec->name;
      ++elements;
    }
  }
  std::int64_t trainable = 0;
  for (const UnitSpec& unit : spec.units) {
    for (const ParameterSpec& p : unit.parameters)
      trainable += p.frozen ? 0 : element_count(p.shape);
  }
  EXPECT_EQ(elements, trainable);
}

std::int64_t reduce_bytes() {
  return testing::sum_over_ranks(world().bytes()[Purpose::reduce]);
}

// CASES 31: four exchanges and one gather to owners by default; one of each when accumulation is unsharded.
TEST(FsdpReduce, reductions_are_counted) {
  const ModelSpec spec = small_model(3);
  for (const Accumulation accumulation : {Accumulation::chunks, Accumulation::unsharded}) {
    ShardedModel model(world(), spec, make_plan(spec, world().size()), options_for(4, accumulation));
    const std::int64_t before = reduce_bytes();
    run_passes(model, 4);
    const std::int64_t exchanges = accumulation == Accumulation::chunks ? 4 : 1;
    const testing::ReductionBytes expected = testing::reduction_bytes(model.plan(), exchanges);
    EXPECT_EQ(reduce_bytes() - before, exchanges * expected.exchange + expected.to_owners);
  }
}

TEST(FsdpReduce, unsharded_accumulation_sums_passes_first) {
  const ModelSpec spec = small_model(2);
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options_for(3, Accumulation::unsharded));
  for (int step = 0; step < 2; ++step) {
    run_passes(model, 3);
    const int ranks = world().size();
    for (const ParameterView& view : model.trainable()) {
      for (std::int64_t i = 0; i < view.elements.size(); ++i) {
        float expected = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          float local = 0;
          for (int pass = 0; pass < 3; ++pass) {
            local += micro_gradient(view.spec->name, view.elements.begin + i, pass * ranks + rank);
          }
          expected = rank == 0 ? local : expected + local;
        }
        ASSERT_EQ(view.gradient(static_cast<std::size_t>(i)), expected) << view.spec->name;
      }
    }
  }
}

// CASES 34: a parameter without a gradient on one rank counts as zeros there; nobody waits for it.
TEST(FsdpReduce, an_untouched_gradient_is_zero_and_takes_part) {
  const ModelSpec spec = small_model(2);
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options_for(1));
  for (int step = 0; step < 2; ++step) {
    model.begin_step();
    model.begin_pass();
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      if (world().rank() == 0) write_gradients(model, u, 0);
      model.reduce(u);
    }
    for (const ParameterView& view : model.trainable()) {
      for (std::int64_t i = 0; i < view.elements.size(); ++i) {
        ASSERT_EQ(view.gradient(static_cast<std::size_t>(i)),
                  micro_gradient(view.spec->name, view.elements.begin + i, 0));
      }
    }
  }
}

TEST(FsdpReduce, misuse_names_the_unit) {
  const ModelSpec spec = small_model(2);
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options_for(2));
  EXPECT_THROW(model.begin_pass(), ContractError);
  model.begin_step();
  EXPECT_THROW(model.gradients(1), ContractError);
  model.begin_pass();
  model.gradients(2);
  try {
    model.gradients(1);
    FAIL() << "two units were in one gradient buffer";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("block.1"), std::string::npos) << error.what();
  }
  EXPECT_THROW(model.begin_pass(), ContractError);  // nothing was reduced
  EXPECT_THROW(gradient_norm(model), ContractError);
}

// CASES 26, 27: each element counts once, on every rank, the owner of nothing too: sqrt(120) = 10.954...
TEST(FsdpNorm, four_tensors_at_any_world_size) {
  ModelSpec spec;
  UnitSpec unit{"only", {}, false};
  unit.parameters = {parameter("a", {4, 5}), parameter("b", {2, 5}), parameter("c", {10}), parameter("d", {20})};
  spec.units.push_back(unit);
  ShardedModel model(world(), spec, make_plan(spec, world().size()), options_for(1));
  model.begin_step();
  model.begin_pass();
  if (world().rank() == 0) {
    UnitTensors<float>& gradients = model.gradients(0);  // 20 + 40 + 10 * 1 + 20 * 2.5 = 120
    Kokkos::deep_copy(gradients[0], 1.0F);
    Kokkos::deep_copy(gradients[1], 2.0F);
    Kokkos::deep_copy(gradients[2], -1.0F);
    Kokkos::deep_copy(gradients[3], std::sqrt(2.5F));
  }
  model.reduce(0);
  const GradientNorm norm = gradient_norm(model, world().rank() + 1);
  EXPECT_NEAR(norm.norm, 10.954451150103322, 1e-6);
  EXPECT_TRUE(norm.finite);
  EXPECT_EQ(norm.failures, world().size() * (world().size() + 1) / 2) << "of owners of nothing too";
}

/// The rule of the header, element by element: blocks folded per parameter, then over parameters.
double reference_norm(const ModelSpec& spec, std::int64_t micro_batches) {
  double total = 0;
  for (const UnitSpec& unit : spec.units) {
    for (const ParameterSpec& p : unit.parameters) {
      if (p.frozen) continue;
      double sum = 0;
      const auto value_of = [&](std::int64_t i) { return folded_gradient(p.name, i, micro_batches); };
      for (const double block : testing::block_square_sums(element_count(p.shape), value_of))
        sum += block;
      total += sum;
    }
  }
  return std::sqrt(total);
}

TEST(FsdpNorm, the_same_bits_for_every_plan) {
  const ModelSpec spec = small_model(3);
  const double expected = reference_norm(spec, 2 * world().size());
  for (const TailPlacement tails : {TailPlacement::packed, TailPlacement::spread, TailPlacement::automatic}) {
    PlannerOptions planner;
    planner.tails = tails;
    ShardedModel model(world(), spec, make_plan(spec, world().size(), planner), options_for(2));
    run_passes(model, 2);
    EXPECT_EQ(gradient_norm(model).norm, expected);
  }
  ShardedModel replicated(world(), spec, make_replicated_plan(spec, world().size()), options_for(2));
  run_passes(replicated, 2);
  EXPECT_EQ(gradient_norm(replicated).norm, expected);
}

// CASES 30: one rank's bad gradient is everybody's decision.
TEST(FsdpNorm, a_non_finite_gradient_is_seen_by_all) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const ModelSpec spec = small_model(2);
    ShardedModel model(world(), spec, make_plan(spec, world().size()), options_for(1));
    model.begin_step();
    model.begin_pass();
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      write_gradients(model, u, world().rank());
      if (u == 2 && world().rank() == world().size() - 1) model.gradients(u)[1](3) = bad;
      model.reduce(u);
    }
    EXPECT_FALSE(gradient_norm(model).finite);
  }
}

TEST(FsdpNorm, clip_scale_brings_the_norm_down_to_the_limit) {
  EXPECT_EQ(clip_scale(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_scale(1e30, 0.0), 1.0);  // no clipping
  EXPECT_EQ(clip_scale(0.0, 1.0), 1.0);
}

}  // namespace
}  // namespace matrixfsdp
