#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/calibration.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>

#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::world;

void expect_measured(const LinkModel& link) {
  for (const double figure : {link.alpha_seconds, link.beta_seconds_per_byte, link.node_beta_seconds_per_byte,
                              link.all_beta_seconds_per_byte, link.contention}) {
    EXPECT_GT(figure, 0);
    EXPECT_TRUE(std::isfinite(figure));
  }
  EXPECT_GE(link.message_seconds, 0);
}

void expect_equal_everywhere(std::uint64_t value) {
  for (const std::uint64_t other : all_gather_value(world(), Purpose::other, value, {"comparison", "", "test"}))
    EXPECT_EQ(other, value);
}

int node_count(const Topology& topology) {
  return static_cast<int>(std::set<int>(topology.node.begin(), topology.node.end()).size());
}

double predicted_seconds(const CollectiveCorrection& one, const Topology& topology, const CollectiveProfile& profile) {
  const std::int64_t size = one.bytes / 4 / world().size() * world().size();
  SegmentTable table = even_table(size, world().size());
  for (std::size_t rank = 0; one.one_owner && rank < table.intervals.size(); ++rank)
    table.intervals[rank][0] = {rank == 0 ? 0 : size, size};
  return one.operation == CollectiveOperation::unshard
             ? predicted_unshard_seconds(one.algorithm, table, topology, profile)
             : predicted_reduce_seconds(prepare_reduce(one.algorithm, table, topology), topology, profile);
}

/// direct and scatter send the same messages for an even table: one measurement counts for both. What the links alone
/// predict to take twice as long as the fastest is not measured, and never chosen before it.
void expect_consistent(const CollectiveProfile& profile, const Topology& topology) {
  CollectiveProfile links = profile;
  links.corrections.clear();
  for (const CollectiveCorrection& one : profile.corrections) {
    const CollectiveCorrection* fastest = &one;
    for (const CollectiveCorrection& other : profile.corrections) {
      if (other.bytes != one.bytes || other.operation != one.operation || other.one_owner != one.one_owner) continue;
      if (predicted_seconds(other, topology, links) < predicted_seconds(*fastest, topology, links)) fastest = &other;
      if (one.one_owner || one.algorithm != CollectiveAlgorithm::direct) continue;
      if (other.algorithm != CollectiveAlgorithm::scatter) continue;
      EXPECT_NEAR(predicted_seconds(one, topology, profile), predicted_seconds(other, topology, profile), 1e-9);
    }
    if (predicted_seconds(one, topology, links) > 3 * predicted_seconds(*fastest, topology, links)) {
      EXPECT_NEAR(one.factor, fastest->factor, 1e-9) << name_of(one.algorithm) << ", " << one.bytes;
    }
  }
}

/// The same on every rank, and so is what it chooses; its bytes have no other purpose.
void expect_calibrated(const Topology& topology) {
  Communicator communicator = testing::duplicate_world();
  const CollectiveProfile profile = calibrate(communicator, topology);
  EXPECT_EQ(communicator.bytes().total(), communicator.bytes()[Purpose::other]);
  EXPECT_EQ(communicator.bytes().total() > 0, world().size() > 1);
  validate(profile);
  expect_equal_everywhere(hash_of(profile));
  EXPECT_EQ(profile.world_size, world().size());
  EXPECT_EQ(profile.nodes, node_count(topology));
  ASSERT_EQ(profile.inside.has_value(), node_count(topology) < world().size());
  ASSERT_EQ(profile.between.has_value(), node_count(topology) > 1);
  if (profile.inside) expect_measured(*profile.inside);
  if (profile.between) expect_measured(*profile.between);
  for (const auto operation : {CollectiveOperation::unshard, CollectiveOperation::reduce}) {
    for (const bool one_owner : {false, true}) {
      const auto measured = [&](const CollectiveCorrection& one) {
        return one.operation == operation && one.one_owner == one_owner && one.bytes == 65536;
      };
      EXPECT_EQ(std::any_of(profile.corrections.begin(), profile.corrections.end(), measured), world().size() > 1);
    }
  }
  expect_consistent(profile, topology);
  for (const std::int64_t size : {std::int64_t{100}, std::int64_t{3000000}}) {
    const SegmentTable table = even_table(size, world().size());
    expect_equal_everywhere(static_cast<std::uint64_t>(choose_unshard(table, topology, profile).algorithm));
    expect_equal_everywhere(static_cast<std::uint64_t>(choose_reduce(table, topology, profile).algorithm));
  }
}

TEST(CommCalibration, measures_the_links_that_the_job_has) {
  expect_calibrated(mpi::topology_of(world()));
}

// Ranks of one machine, taken for nodes of one and of two. Once for each number of ranks (areas/comm.cmake).
TEST(CommCalibration, measures_links_inside_nodes_and_between_them) {
  for (const int per_node : {1, 2}) {
    if (per_node < world().size()) expect_calibrated(make_topology(world().size(), per_node));
  }
}

TEST(CommCalibration, a_topology_of_other_ranks_is_refused) {
  EXPECT_THROW(calibrate(world(), make_topology(world().size() + 1, 1)), ContractError);
}

}  // namespace
}  // namespace matrixfsdp
