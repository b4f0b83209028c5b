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

/// direct and scatter send the same messages for an even table: one measurement counts for both.
void expect_one_measurement_of_the_same(const CollectiveProfile& profile, const Topology& topology) {
  const auto seconds = [&](const CollectiveCorrection& one, const SegmentTable& table) {
    return one.operation == CollectiveOperation::unshard
               ? predicted_unshard_seconds(one.algorithm, table, topology, profile)
               : predicted_reduce_seconds(prepare_reduce(one.algorithm, table, topology), topology, profile);
  };
  for (const CollectiveCorrection& direct : profile.corrections) {
    if (direct.one_owner || direct.algorithm != CollectiveAlgorithm::direct) continue;
    for (const CollectiveCorrection& scatter : profile.corrections) {
      if (scatter.one_owner || scatter.algorithm != CollectiveAlgorithm::scatter || scatter.bytes != direct.bytes ||
          scatter.operation != direct.operation)
        continue;
      const SegmentTable table = even_table(direct.bytes / 4 / world().size() * world().size(), world().size());
      EXPECT_NEAR(seconds(direct, table), seconds(scatter, table), 1e-9) << direct.bytes;
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
  const std::vector<int> pace = mpi::pace_of(communicator);
  for (int peer = 0; peer < world().size(); ++peer) {
    const bool near = topology.same_node(world().rank(), peer);
    EXPECT_EQ(pace[static_cast<std::size_t>(peer)], messages_under_way(profile, near)) << "rank " << peer;
  }
  for (const auto operation : {CollectiveOperation::unshard, CollectiveOperation::reduce}) {
    for (const bool one_owner : {false, true}) {
      const auto measured = [&](const CollectiveCorrection& one) {
        return one.operation == operation && one.one_owner == one_owner && one.bytes == 65536;
      };
      EXPECT_EQ(std::any_of(profile.corrections.begin(), profile.corrections.end(), measured), world().size() > 1);
    }
  }
  expect_one_measurement_of_the_same(profile, topology);
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
