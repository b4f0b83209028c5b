#include <gtest/gtest.h>

#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "support/mpi_world.hpp"
#include "support/small_models.hpp"

// What a sum over passes is made of: float32 from the first pass on, whatever is used when.
namespace matrixfsdp {
namespace {

using testing::small_model;
using testing::sum_over_ranks;
using testing::world;

/// Runs one step; rank 0 adds `value_of(pass)` to every element of the matrices of unit 1 in the passes where it is not
/// zero, and no rank touches anything else. Returns the elements that this rank owns, all of which hold `expected`.
template <class ValueOf>
std::int64_t expect_sum(ShardedModel& model, std::int64_t passes, const ValueOf& value_of, float expected) {
  model.begin_step();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    model.begin_pass();
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      if (u == 1 && world().rank() == 0 && value_of(pass) != 0.0F) {
        for (const TensorView<float>& gradient : model.gradients(u)) {
          for (std::size_t i = 0; i < gradient.size(); ++i)
            gradient(i) += value_of(pass);
        }
      }
      model.reduce(u);
    }
  }
  std::int64_t elements = 0;
  for (const ParameterView& view : model.trainable()) {
    for (std::size_t i = 0; i < view.gradient.size(); ++i)
      EXPECT_EQ(view.gradient(i), view.unit == 1 ? expected : 0.0F) << view.spec->name;
    if (view.unit == 1) elements += view.elements.size();
  }
  return elements;
}

ShardedModel make(const ModelSpec& spec, std::int64_t passes, Accumulation accumulation, UnitPolicy policy = {}) {
  ShardedModelOptions options;
  options.policies.all = policy;
  options.passes = passes;
  options.accumulation = accumulation;
  return ShardedModel(world(), spec, make_plan(spec, world().size()), options);
}

// CASES 32: in bf16, 256 + 1 is 256.
TEST(FsdpAccumulation, two_hundred_fifty_six_and_one_are_257) {
  const ModelSpec spec = small_model(1);
  for (const Accumulation accumulation : {Accumulation::chunks, Accumulation::unsharded}) {
    ShardedModel model = make(spec, 2, accumulation);
    for (int step = 0; step < 2; ++step) {
      const std::int64_t mine = expect_sum(
          model, 2, [](std::int64_t pass) { return pass == 0 ? 256.0F : 1.0F; }, 257.0F);
      EXPECT_EQ(sum_over_ranks(mine), 18 * 7 + 7 * 18 + 5 * 5 + 18);
    }
  }
}

// CASES 32 where the gradients themselves travel as bf16: their sums do not. Passes that are summed before they travel
// are a gradient too, and rounded: 257 is halfway between two numbers of bf16.
TEST(FsdpAccumulation, gradients_of_bfloat16_have_sums_of_float32) {
  const ModelSpec spec = small_model(1);
  const auto value_of = [](std::int64_t pass) { return pass == 0 ? 256.0F : 1.0F; };
  ShardedModel chunks = make(spec, 2, Accumulation::chunks, {DType::bfloat16, DType::bfloat16});
  ShardedModel unsharded = make(spec, 2, Accumulation::unsharded, {DType::bfloat16, DType::bfloat16});
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(sum_over_ranks(expect_sum(chunks, 2, value_of, 257.0F)), 18 * 7 + 7 * 18 + 5 * 5 + 18);
    expect_sum(unsharded, 2, value_of, 256.0F);
  }
}

// CASES 33: a unit that is used for the first time in the last of three passes is summed in the same type as any other:
// 1 + 2^-20 has no bfloat16. The same model then uses it in all passes, and in none.
TEST(FsdpAccumulation, first_use_in_the_last_pass) {
  const ModelSpec spec = small_model(1);
  constexpr float fine = 1.0F + 0x1.0p-20F;
  for (const Accumulation accumulation : {Accumulation::chunks, Accumulation::unsharded}) {
    ShardedModel model = make(spec, 3, accumulation);
    std::int64_t mine = expect_sum(
        model, 3, [](std::int64_t pass) { return pass == 2 ? fine : 0.0F; }, fine);
    EXPECT_EQ(sum_over_ranks(mine), 18 * 7 + 7 * 18 + 5 * 5 + 18);
    mine = expect_sum(
        model, 3, [](std::int64_t pass) { return pass == 1 ? 0.5F : fine; }, 2.0F * fine + 0.5F);
    EXPECT_EQ(sum_over_ranks(mine), 18 * 7 + 7 * 18 + 5 * 5 + 18);
    expect_sum(
        model, 3, [](std::int64_t) { return 0.0F; }, 0.0F);
  }
}

// CASES 33 with bf16 parameters: whichever pass is the first to use a unit, what is rounded is each gradient, and no
// sum.
TEST(FsdpAccumulation, first_use_of_bfloat16_parameters_in_the_last_pass) {
  const ModelSpec spec = small_model(1);
  constexpr float fine = 1.0F + 0x1.0p-20F;
  ShardedModel exact = make(spec, 3, Accumulation::chunks, {DType::bfloat16, DType::float32});
  ShardedModel rounded = make(spec, 3, Accumulation::chunks, {DType::bfloat16, DType::bfloat16});
  const auto last = [](std::int64_t pass) { return pass == 2 ? fine : 0.0F; };
  expect_sum(exact, 3, last, fine);
  expect_sum(rounded, 3, last, 1.0F);
  const auto all = [](std::int64_t pass) { return pass == 1 ? 256.0F : fine; };
  expect_sum(exact, 3, all, (fine + 256.0F) + fine);
  expect_sum(rounded, 3, all, 258.0F);
}

}  // namespace
}  // namespace matrixfsdp
