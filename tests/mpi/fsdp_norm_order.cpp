#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "support/messages.hpp"
#include "support/mpi_world.hpp"
#include "support/norm_blocks.hpp"
#include "support/small_models.hpp"

/// Sums over ranks with so many terms that another order of them shows: the norm of a parameter that is cut over all
/// ranks, and the loss of many passes.
namespace matrixfsdp {
namespace {

using testing::world;

constexpr std::int64_t blocks = 61;
constexpr std::int64_t size = blocks * norm_block - 5;

float value_of(std::int64_t i) {
  return static_cast<float>(CounterRandom(3, stream_of("gradient")).normal(static_cast<std::uint64_t>(i)));
}

/// Left fold of the sums of `groups` runs of blocks; one group per block is the rule.
double folded(const std::vector<double>& sums, std::size_t groups) {
  double total = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    double part = 0;
    for (std::size_t b = sums.size() * g / groups; b < sums.size() * (g + 1) / groups; ++b)
      part += sums[b];
    total += part;
  }
  return total;
}

TEST(FsdpNormOrder, blocks_of_a_cut_tail_are_folded_one_by_one) {
  ModelSpec spec;
  spec.units.push_back({"root", {testing::parameter("long", {size})}, true});
  PlannerOptions planner;
  planner.tails = TailPlacement::spread;
  ShardedModel model(world(), spec, make_plan(spec, world().size(), planner), {});
  model.begin_step();
  model.begin_pass();
  if (world().rank() == 0) {
    const TensorView<float> gradient = model.gradients(0)[0];
    for (std::int64_t i = 0; i < size; ++i)
      gradient(static_cast<std::size_t>(i)) = value_of(i);
  }
  model.reduce(0);
  const std::vector<double> sums = testing::block_square_sums(size, value_of);
  const double expected = folded(sums, sums.size());
  EXPECT_EQ(gradient_norm(model).norm, std::sqrt(expected));
  // Otherwise the comparison could not fail: a sum by rank has other bits.
  for (const std::size_t ranks : {2U, 3U, 4U, 8U})
    EXPECT_NE(std::sqrt(folded(sums, ranks)), std::sqrt(expected)) << ranks;
}

TEST(FsdpNormOrder, losses_of_many_passes_are_folded_by_index) {
  constexpr std::int64_t passes = 23;
  const int ranks = world().size();
  std::vector<double> mine;
  std::vector<double> of_ranks(static_cast<std::size_t>(ranks), 0.0);
  double expected = 0;
  for (std::int64_t index = 0; index < passes * ranks; ++index) {
    const double loss = std::pow(10.0, static_cast<double>(index % 4)) / static_cast<double>(25 + index);
    expected += loss;
    of_ranks[static_cast<std::size_t>(index % ranks)] += loss;
    if (index % ranks == world().rank()) mine.push_back(loss);
  }
  EXPECT_EQ(fold_losses(world(), mine), expected);
  // Otherwise the comparison could not fail: a sum by rank has other bits.
  if (ranks > 1) {
    EXPECT_NE(std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0), expected);
  }
}

/// Each group's losses from left to right, then the groups' sums.
double folded_in_groups(const std::vector<double>& losses, std::size_t group) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (i % group == 0) sums.push_back(0);
    sums.back() += losses[i];
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// As gradients are: groups that end within a pass, or reach over several.
TEST(FsdpLosses, groups_are_summed_first) {
  constexpr std::int64_t passes = 12;
  const int ranks = world().size();
  std::vector<double> all;
  std::vector<double> mine;
  for (std::int64_t index = 0; index < passes * ranks; ++index) {
    all.push_back(std::pow(10.0, static_cast<double>(index % 4)) / static_cast<double>(25 + index));
    if (index % ranks == world().rank()) mine.push_back(all.back());
  }
  bool order_matters = false;
  for (const std::size_t group : {1U, 2U, 3U, 4U, 6U, 12U}) {
    order_matters = order_matters || folded_in_groups(all, group) != folded_in_groups(all, 1);
    EXPECT_EQ(fold_losses(world(), mine, static_cast<std::int64_t>(group)), folded_in_groups(all, group)) << group;
  }
  EXPECT_TRUE(order_matters) << "the losses cannot show another order";
  EXPECT_THROW(fold_losses(world(), mine, 7 * ranks), InputError);
  EXPECT_THROW(fold_losses(world(), mine, 0), InputError);
}

TEST(FsdpLosses, another_number_on_one_rank_is_an_error_on_every_rank) {
  if (world().size() == 1) return;
  const int odd_one = world().size() - 1;
  for (const std::size_t other : {0U, 1U, 3U}) {
    const std::vector<double> mine(world().rank() == odd_one ? other : 2U, 1.0);
    const std::string message = test::message_of<CommunicationError>([&] { fold_losses(world(), mine); });
    EXPECT_TRUE(
        test::mentions(message, {"2 losses on rank 0", std::to_string(other) + " on rank " + std::to_string(odd_one)}));
  }
}

}  // namespace
}  // namespace matrixfsdp
