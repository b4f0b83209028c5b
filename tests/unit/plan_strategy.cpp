#include <algorithm>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/row_shards.hpp>
#include <matrixfsdp/plan/strategy.hpp>

#include "support/shapes_model.hpp"

namespace matrixfsdp {
namespace {

TEST(PlanStrategy, names_are_read_as_they_are_written) {
  EXPECT_EQ(strategy_kinds().size(), 6U);
  for (const StrategyKind kind : strategy_kinds()) {
    EXPECT_EQ(parse_strategy(name_of(kind)), kind);
    EXPECT_FALSE(summary_of(kind).empty());
  }
  EXPECT_EQ(parse_strategy("fsdp2-alltoall"), StrategyKind::fsdp2_alltoall);
  try {
    parse_strategy("fsdp3");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "strategy 'fsdp3': expected one of matrix-fsdp, fsdp2, fsdp2-gather, fsdp2-alltoall, zero1-owner, ddp");
  }
  EXPECT_THROW(name_of(static_cast<StrategyKind>(17)), ContractError);
}

// torch.chunk(7 rows, 4): 2, 2, 2, 1; of 5: 2, 2, 1, none; of 2: one each, and none.
TEST(PlanStrategy, rows_are_cut_as_torch_chunk_cuts) {
  const auto sizes = [](std::int64_t rows, int ranks) {
    std::string all;
    for (int rank = 0; rank < ranks; ++rank)
      all += std::to_string(row_chunk(rows, rank, ranks).size()) + " ";
    return all;
  };
  EXPECT_EQ(sizes(7, 4), "2 2 2 1 ");
  EXPECT_EQ(sizes(5, 4), "2 2 1 0 ");
  EXPECT_EQ(sizes(2, 4), "1 1 0 0 ");
  EXPECT_EQ(sizes(0, 2), "0 0 ");
  EXPECT_THROW(row_chunk(3, 4, 4), ContractError);
}

TEST(PlanStrategy, every_element_has_one_row_shard) {
  const ModelSpec model = testing::shapes_model();
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    const Plan plan = make_row_plan(model, ranks);
    EXPECT_TRUE(plan.row_shards);
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      for (std::size_t p = 0; p < model.units[u].parameters.size(); ++p) {
        std::vector<int> times(static_cast<std::size_t>(element_count(model.units[u].parameters[p].shape)), 0);
        for (const Segment& segment : plan.units[u].weights.segments) {
          if (segment.parameter != p) continue;
          for (std::int64_t i = segment.elements.begin; i < segment.elements.end; ++i)
            ++times[static_cast<std::size_t>(i)];
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 1), static_cast<std::int64_t>(times.size()))
            << model.units[u].parameters[p].name;
      }
    }
    EXPECT_THROW(static_cast<void>(plan.owner(1, 0)), ContractError);
  }
}

// Query, key and value are cut each by itself: rank 1 of 2 has the second half of each.
TEST(PlanStrategy, blocks_are_parameters_of_their_own) {
  const std::vector<RowBlock> blocks = row_blocks(testing::fused("qkv", {12, 4}, 0, {8, 2, 2}));
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(row_elements(blocks[0], 1, 2), (Interval{16, 32}));
  EXPECT_EQ(row_elements(blocks[1], 1, 2), (Interval{36, 40}));
  EXPECT_EQ(row_elements(blocks[2], 1, 2), (Interval{44, 48}));
  EXPECT_EQ(row_blocks(testing::fused("columns", {4, 12}, 1, {8, 2, 2})).size(), 1U);
  EXPECT_EQ(row_blocks(testing::matrix("experts", {2, 4, 4})).size(), 2U);
  EXPECT_EQ(row_blocks(test::parameter("scalar", {})).front().size(), 1);
  EXPECT_TRUE(row_blocks(test::parameter("nothing", {0, 8})).empty());
}

TEST(PlanStrategy, a_damaged_row_plan_is_named) {
  const ModelSpec model = testing::shapes_model();
  const Plan plan = make_row_plan(model, 3);
  EXPECT_NO_THROW(validate(model, plan));
  Plan other = plan;
  other.units[1].weights.segments[4].rank = 2;
  EXPECT_THROW(validate(model, other), ContractError);
  EXPECT_NE(hash_of(other), hash_of(plan));
  other = plan;
  other.units[1].gradients.segments.pop_back();
  EXPECT_THROW(validate(model, other), ContractError);
  other = plan;
  std::swap(other.units[2].weights.owned[0], other.units[2].weights.owned[1]);
  EXPECT_THROW(validate(model, other), ContractError);
  other = plan;
  other.row_shards = false;
  EXPECT_THROW(validate(model, other), ContractError);
  EXPECT_NE(hash_of(other), hash_of(plan));
}

/// A root and n equal blocks of one h x h matrix.
ModelSpec equal_blocks(std::int64_t blocks, std::int64_t size) {
  ModelSpec model;
  model.units.push_back({"root", {test::parameter("norm", {8})}, true});
  for (std::int64_t b = 0; b < blocks; ++b) {
    model.units.push_back({"block." + std::to_string(b), {}, false});
    model.units.back().parameters.push_back(testing::matrix("m." + std::to_string(b), {size, size}));
  }
  return model;
}

// By hand, one matrix of 8 x 8 on two ranks: 64 elements, half of them on each.
TEST(PlanStrategy, bytes_of_one_matrix_by_hand) {
  const ModelSpec model = equal_blocks(1, 8);
  const Topology topology = make_topology(2, 2);
  StrategyCostOptions options;
  options.memory.optimizer.newton_schulz_steps = 3;
  const auto sent = [&](StrategyKind kind) {
    std::vector<std::int64_t> bytes;
    for (const StrategyLoad& load : strategy_loads(kind, model, make_strategy_plan(kind, model, 2), topology, options))
      bytes.push_back(load.optimizer_bytes);
    return bytes;
  };
  using Bytes = std::vector<std::int64_t>;
  EXPECT_EQ(sent(StrategyKind::matrix_fsdp), (Bytes{0, 0}));
  EXPECT_EQ(sent(StrategyKind::ddp), (Bytes{0, 0}));
  EXPECT_EQ(sent(StrategyKind::fsdp2), (Bytes{3 * 128 + 16, 3 * 128 + 16}));
  EXPECT_EQ(sent(StrategyKind::fsdp2_gather), (Bytes{128, 128}));
  EXPECT_EQ(sent(StrategyKind::fsdp2_alltoall), (Bytes{128, 128}));
  const std::vector<std::int64_t> weights = sent(StrategyKind::zero1_owner);
  EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), std::int64_t{0}), 4 * (64 + 8));
}

// Units that wait in storage are not fetched again. Four blocks, one slot: 4 forward, 3 backward (the last one is
// there), and in the second pass block 0 is there. Two slots: the last two are there in backward.
TEST(PlanStrategy, fetches_by_hand) {
  const ModelSpec model = equal_blocks(4, 8);
  MemoryOptions options;
  const auto fetches = [&](const Plan& plan) { return fetches_per_step(model, plan, options); };
  using Fetches = std::vector<std::int64_t>;
  const Plan owners = make_plan(model, 2);
  const Plan rows = make_row_plan(model, 2);
  options.prefetch = 0;
  EXPECT_EQ(fetches(owners), (Fetches{1, 2, 2, 2, 1}));
  EXPECT_EQ(fetches(rows), (Fetches{1, 2, 2, 2, 1}));
  options.prefetch = 1;
  EXPECT_EQ(fetches(owners), (Fetches{1, 2, 2, 1, 1}));
  EXPECT_EQ(fetches(rows), (Fetches{1, 2, 2, 2, 1}));
  options.passes = 2;
  options.prefetch = 0;
  EXPECT_EQ(fetches(owners), (Fetches{1, 3, 4, 4, 2}));
  options.resident_weights = true;
  EXPECT_EQ(fetches(owners), (Fetches{0, 0, 0, 0, 0}));
}

// Every matrix once; ranks differ by no more than one matrix where all are equal.
TEST(PlanStrategy, rounds_have_every_matrix_once) {
  const ModelSpec model = equal_blocks(7, 12);
  const auto rounds = orthogonalizing_rounds(model, 3, {});
  ASSERT_EQ(rounds.size(), 3U);
  std::vector<int> times(7, 0);
  for (const auto& round : rounds) {
    ASSERT_EQ(round.size(), 3U);
    for (const std::int64_t matrix : round) {
      if (matrix >= 0) ++times[static_cast<std::size_t>(matrix)];
    }
  }
  EXPECT_EQ(times, std::vector<int>(7, 1));
  EXPECT_EQ(std::count(rounds[2].begin(), rounds[2].end(), -1), 2);
}

TEST(PlanStrategy, loads_need_a_topology_of_all_ranks_and_plain_policies) {
  const ModelSpec model = equal_blocks(2, 8);
  const Plan plan = make_plan(model, 2);
  StrategyCostOptions options;
  EXPECT_THROW(strategy_loads(StrategyKind::matrix_fsdp, model, plan, make_topology(3, 3), options), ContractError);
  options.memory.policies.all.reshard_to = 2;
  EXPECT_THROW(strategy_loads(StrategyKind::matrix_fsdp, model, plan, make_topology(2, 2), options), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
