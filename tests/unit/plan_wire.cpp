#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/plan/unit_policy.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

SegmentTable owners(const std::vector<std::int64_t>& owned) {
  SegmentTable table;
  for (const std::int64_t elements : owned) {
    table.intervals.push_back({Interval{table.size, table.size + elements}, Interval{}});
    table.size += elements;
  }
  return table;
}

TEST(PlanWire, float32_and_bfloat16_travel_and_nothing_else) {
  const SegmentTable table = owners({5, 3});
  const Topology topology = make_topology(2, 1);
  EXPECT_EQ(prepare_unshard(CollectiveAlgorithm::chain, table, topology, 0).wire, DType::float32);
  EXPECT_EQ(prepare_reduce(CollectiveAlgorithm::scatter, table).wire, DType::float32);
  for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::allgatherv}) {
    EXPECT_EQ(prepare_unshard(algorithm, table, topology, 0, 10, DType::bfloat16).wire, DType::bfloat16);
    EXPECT_THROW(prepare_unshard(algorithm, table, topology, 0, 10, DType::float64), ContractError);
  }
  EXPECT_EQ(prepare_reduce(CollectiveAlgorithm::direct, table, 1, DType::bfloat16).wire, DType::bfloat16);
  EXPECT_EQ(
      test::message_of<ContractError>([&] { prepare_reduce(CollectiveAlgorithm::direct, table, 1, DType::float64); }),
      "reduce as float64: expected float32 or bfloat16");
}

TEST(PlanWire, staging_has_the_size_of_what_travels) {
  for (const std::int64_t size : {0, 1, 9, 100001}) {
    const SegmentTable table = owners({size, 7, 0, size});
    for (int rank = 0; rank < 4; ++rank) {
      const Reduce whole = prepare_reduce(CollectiveAlgorithm::direct, table);
      const Reduce half = prepare_reduce(CollectiveAlgorithm::direct, table, 1, DType::bfloat16);
      const std::int64_t row = reduce_slots(whole, rank).elements;
      EXPECT_EQ(row, std::min<std::int64_t>(table.shard_size(rank), reduce_room));
      EXPECT_EQ(reduce_staging_bytes(whole, rank), 4 * 3 * row);
      EXPECT_EQ(reduce_staging_bytes(half, rank), 2 * 3 * row);
    }
  }
}

/// Bytes that the rank which receives most receives, when rank r sums shares[r] elements, its own first.
std::int64_t most_received(const std::vector<std::int64_t>& owned, const std::vector<std::int64_t>& shares,
                           std::int64_t passes, std::int64_t gradient_bytes) {
  std::int64_t most = 0;
  for (std::size_t r = 0; r < owned.size(); ++r) {
    const std::int64_t copies = passes * (static_cast<std::int64_t>(owned.size()) - 1);
    most = std::max(most, gradient_bytes * copies * shares[r] + 4 * std::max<std::int64_t>(0, owned[r] - shares[r]));
  }
  return most;
}

// Three ranks, every division of the sums.
TEST(PlanWire, the_most_bytes_that_a_rank_receives_are_as_few_as_can_be) {
  for (const auto& owned : {std::vector<std::int64_t>{30, 0, 0}, {20, 10, 0}, {11, 10, 9}, {0, 1, 0}, {5, 0, 23}}) {
    const std::int64_t total = owned[0] + owned[1] + owned[2];
    for (const std::int64_t passes : {1, 2, 5}) {
      for (const DType wire : {DType::float32, DType::bfloat16}) {
        const auto bytes = static_cast<std::int64_t>(size_of(wire));
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (std::int64_t a = 0; a <= total; ++a) {
          for (std::int64_t b = 0; a + b <= total; ++b)
            least = std::min(least, most_received(owned, {a, b, total - a - b}, passes, bytes));
        }
        const Reduce reduce = prepare_reduce(CollectiveAlgorithm::scatter, owners(owned), passes, wire);
        std::vector<std::int64_t> shares(3, 0);
        for (std::size_t r = 0; r < 3; ++r) {
          for (const Piece& block : reduce.blocks[r])
            shares[r] += block.elements.size();
        }
        EXPECT_EQ(most_received(owned, shares, passes, bytes), least)
            << owned[0] << ", " << owned[1] << ", " << owned[2] << ", " << passes << " passes, " << name_of(wire);
      }
    }
  }
}

TEST(PlanPolicies, a_unit_has_its_own_or_that_of_all) {
  const ModelSpec model = test::blocks(3, 8, 1, 0);
  UnitPolicies policies;
  policies.all.param_dtype = DType::bfloat16;
  policies.by_unit["block.1"].reduce_dtype = DType::bfloat16;
  const std::vector<UnitPolicy> resolved = resolve(policies, model, 4);
  ASSERT_EQ(resolved.size(), 3U);
  EXPECT_EQ(resolved[0], (UnitPolicy{DType::bfloat16, DType::float32, 0}));
  EXPECT_EQ(resolved[1], (UnitPolicy{DType::float32, DType::bfloat16, 0}));
  EXPECT_EQ(resolved[2], resolved[0]);
}

TEST(PlanPolicies, bad_ones_are_refused) {
  const ModelSpec model = test::blocks(2, 8, 1, 0);
  UnitPolicies unknown;
  unknown.by_unit["block.2"] = {};
  EXPECT_EQ(test::message_of<InputError>([&] { resolve(unknown, model, 4); }),
            "policy of unit 'block.2': expected one of block.0, block.1");
  UnitPolicies wide;
  wide.all.param_dtype = DType::float64;
  EXPECT_THROW(resolve(wide, model, 4), ContractError);
  wide.all = {DType::float32, DType::float64, 0};
  EXPECT_THROW(resolve(wide, model, 4), ContractError);
  UnitPolicies held;
  held.by_unit["block.1"].reshard_to = 3;
  EXPECT_EQ(test::message_of<InputError>([&] { resolve(held, model, 4); }),
            "policy of unit 'block.1': reshard to 3 ranks: expected 0, or a divisor of the 4 of a shard group");
  EXPECT_EQ(resolve(held, model, 6)[1].reshard_to, 3);
}

}  // namespace
}  // namespace matrixfsdp
